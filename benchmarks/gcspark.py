"""A sweep on Spark of many files that do not exist: what it takes in time, processor time, memory and disk.

What is real: the catalog, metadata, lists and manifests as Avro, their decoding, the jobs, the live-set database.  What
is synthetic: each table's manifests are those of the first with another name in them, without columns' statistics, and
the listing is made up, at no cost but Python's; every tenth file is dead, and nothing is deleted.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.gclake import LIST, MANIFEST, avro, entry, manifest_row
from nessie_ops.gc import expire, identify
from nessie_ops.gc.expire import Hooks
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.source import Catalog
from nessie_ops.gc.spark.session import open_engine
from nessie_ops.gc.storage import Deleted, Folder, ListedFile, Stores
from nessie_ops.model import ContentKey, IcebergTable, NewCommit, Put
from nessie_ops.store.livesets import LiveSets
from nessie_ops.versioning import VersionStore

PER_TABLE, PER_FOLDER, PER_MANIFEST, DEAD = 100_000, 1000, 5000, 10  # files; every so manieth is dead
ROOT, FIRST = "synthetic://lake", "t00000"
SETTINGS = {"spark.driver.memory": "2g"}
_WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)
_PAGE = os.sysconf("SC_CLK_TCK")


def name_of(table: str, number: int) -> str:
    return f"{ROOT}/{table}/data/part={number // PER_FOLDER:05}/00000-0-{number:032x}-00001.parquet"


@dataclass(frozen=True)
class SyntheticFiles:
    """Files of tables `t00000`, `t00001`…; `folder` has the first one's metadata objects.  No file is deleted."""

    folder: str

    def physical(self, location: str) -> str:
        return location

    def base(self, location: str) -> str:
        return location

    def read(self, location: str) -> bytes:
        table, name = location.removeprefix(f"{ROOT}/").split("/")[::2]
        return Path(self.folder, name).read_bytes().replace(FIRST.encode(), table.encode())

    def list_files(self, base: str) -> Iterator[ListedFile]:
        table, *rest = base.removeprefix(f"{ROOT}/").split("/")
        start, count = (int(rest[1].removeprefix("part=")) * PER_FOLDER, PER_FOLDER) if rest[1:] else (0, PER_TABLE)
        changed = identify.to_micros(_WRITTEN)
        for number in range(start, start + count):
            yield ListedFile(name_of(table, number), 1_000_000, changed)

    def list_level(self, base: str) -> Iterator[ListedFile | Folder]:
        rest = base.removeprefix(f"{ROOT}/").split("/")[1:]
        if not rest:
            yield Folder(f"{base}/data")
        elif rest == ["data"]:
            for part in range(PER_TABLE // PER_FOLDER):
                yield Folder(f"{base}/part={part:05}")
        else:
            yield from self.list_files(base)

    def stat(self, location: str) -> ListedFile | None:
        return None

    def is_gone(self, location: str) -> bool:
        return not Path(self.folder, location.rpartition("/")[2]).exists()

    def delete(self, locations: Sequence[str]) -> list[Deleted]:
        return [Deleted(location, "failed", "nothing is deleted here") for location in locations]


@dataclass(frozen=True)
class Synthetic:
    """Opens these files on every worker."""

    folder: str

    def __call__(self) -> Stores:
        return Stores({"synthetic": SyntheticFiles(self.folder)})


def write_first(folder: Path) -> None:
    """The metadata objects of the first table."""
    live = [number for number in range(PER_TABLE) if number % DEAD]
    rows = []
    for start in range(0, len(live), PER_MANIFEST):
        entries = [_plain(entry(name_of(FIRST, number), 1, 0)) for number in live[start : start + PER_MANIFEST]]
        data = avro(MANIFEST, entries, codec="null")
        (folder / f"{start}-m0.avro").write_bytes(data)
        rows.append(manifest_row(f"{ROOT}/{FIRST}/metadata/{start}-m0.avro", len(data), 1, len(entries), 0))
    (folder / "snap-1.avro").write_bytes(avro(LIST, rows, codec="null"))
    snapshot = {"snapshot-id": 1, "manifest-list": f"{ROOT}/{FIRST}/metadata/snap-1.avro"}
    metadata = {"location": f"{ROOT}/{FIRST}", "current-snapshot-id": 1, "snapshots": [snapshot]}
    (folder / "1.metadata.json").write_bytes(msgspec.json.encode(metadata))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row without columns' statistics, whose decoding would be most of the work."""
    statistics = ("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    return row | {"data_file": row["data_file"] | {name: [] for name in statistics}}


def make_catalog(tables: int) -> VersionStore:
    """A catalog of so many tables."""
    versions = VersionStore.open("sqlite://", clock=lambda: _WRITTEN)
    puts = [
        Put(
            key=ContentKey.of(f"t{number:05}"),
            content=IcebergTable(
                metadata_location=f"{ROOT}/t{number:05}/metadata/1.metadata.json",
                snapshot_id=1,
                schema_id=0,
                spec_id=0,
                sort_order_id=0,
            ),
        )
        for number in range(tables)
    ]
    head = versions.get_reference("main").hash
    versions.commit("main", head, NewCommit(message="many", committer="etl"), puts)
    return versions


class Watch:
    """Looks at this process and its children every half second: most memory by kind, in MB, and processor seconds."""

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self.cpu: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._look()
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            self._look()

    def _look(self) -> None:
        sums: dict[str, float] = {}
        for pid in _family(os.getpid()):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            is_java = status.startswith("Name:\tjava")
            kind = "driver" if pid == os.getpid() else "jvm" if is_java else "workers"
            sums[kind] = sums.get(kind, 0) + int(status.partition("VmRSS:")[2].split()[0] or 0) / 1000
            self.cpu[pid] = (int(fields[11]) + int(fields[12])) / _PAGE
        for kind, size in sums.items():
            self.peaks[kind] = max(self.peaks.get(kind, 0), size)


def _family(root: int) -> list[int]:
    """A process and all below it."""
    found = [root]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found


def run(folder: Path, files: int, master: str) -> dict[str, Any]:
    """The figures of a sweep of so many files, a multiple of 100,000, with deferred deletion."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("first", "spark"):
        (folder / name).mkdir(parents=True)
    write_first(folder / "first")
    opener = Synthetic(str(folder / "first"))
    versions, watch = make_catalog(files // PER_TABLE), Watch()
    sets = LiveSets.open(f"sqlite:///{folder}/sets.db")
    context = Context(lambda: _WRITTEN + timedelta(days=9), "benchmark", lambda step, count: None)
    source = Catalog(versions)
    identify.begin(sets, source, "id", MarkSettings("benchmark", Policies(context.clock())), context)
    identify.identify(sets, source, "id", context)
    with open_engine(opener, master, SETTINGS | {"spark.local.dir": str(folder / "spark")}) as engine:
        start, cpu = time.perf_counter(), sum(watch.cpu.values())
        settings = expire.SweepSettings(is_deferred=True)
        swept = expire.sweep(sets, "id", source, opener(), settings, context, Hooks(engine=engine))
        wall = time.perf_counter() - start
        watch.close()
        disk = sum(path.stat().st_size for path in (folder / "spark").rglob("*") if path.is_file())
    assert not swept.stopped and not swept.expansion.broken
    found = {fate: sum(verdict.count(fate).files for verdict in swept.verdicts) for fate in ("live", "dead")}
    assert sum(count for count, _ in sets.sum_files(swept.record.number).values()) == found["dead"]
    sets.close()
    versions.close()
    return {
        "files": files,
        "wall": wall,
        "cpu": sum(watch.cpu.values()) - cpu,
        "wall per million": wall / files * 1e6,
        "cpu per million": (sum(watch.cpu.values()) - cpu) / files * 1e6,
        "peak RSS": watch.peaks,
        "disk": disk / 1e6,
        "reads": {str(kind): count for kind, count in swept.expansion.reads.items()},
        **found,
    }
