"""One collection in a process of its own, so that its memory and processor time are its own: what it took and did."""

from __future__ import annotations

import os
import shutil
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import gcspark
from benchmarks.gclake import LIST, MANIFEST, avro, entry, manifest_row
from nessie_ops.catalog.stores import S3
from nessie_ops.gc import expire, identify, report
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.live import Bloom, Exact, LivePlaces
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.s3 import Access, S3Files
from nessie_ops.gc.source import Catalog
from nessie_ops.gc.storage import Deleted, ListedFile, LocalFiles, Stores
from nessie_ops.model import ContentKey, IcebergTable, NewCommit, Put
from nessie_ops.store.livesets import LiveSets
from nessie_ops.versioning import VersionStore

KEY = "benchmark"
PER_MANIFEST = 5000  # live files of one manifest of the table of many files
LATER = timedelta(days=2)  # the collector's clock is ahead, so that nothing is too young


@dataclass(frozen=True)
class Case:
    """What to measure: `delay` in milliseconds, added to each request; `sets`: the file of the live-set database."""

    side: str
    store: str
    sets: str
    cutoff: str
    delay: float
    endpoint: str = ""
    files: int = 0


class CountedS3(S3Files):
    """S3 whose requests take `delay` seconds longer."""

    def __init__(self, access: Access, delay: float) -> None:
        super().__init__(access)
        self._delay = delay

    def _count(self, kind: str) -> None:
        super()._count(kind)
        time.sleep(self._delay)


class CountedFiles(LocalFiles):
    """Local files whose reads, listings and deletions are counted as requests and take `delay` seconds longer."""

    def __init__(self, delay: float) -> None:
        super().__init__()
        self._delay = delay
        self.requests: Counter[str] = Counter()

    def read(self, location: str) -> bytes:
        self._count("get")
        return super().read(location)

    def list_files(self, base: str) -> Iterator[ListedFile]:
        self._count("list")
        return super().list_files(base)

    def delete(self, locations: Sequence[str]) -> list[Deleted]:
        self._count("delete")
        return super().delete(locations)

    def _count(self, kind: str) -> None:
        self.requests[kind] += 1
        time.sleep(self._delay)


def run(case: Case) -> dict[str, Any]:
    """The figures of a collection."""
    if case.side == "spark":
        return gcspark.run(Path(case.sets), case.files, case.endpoint)
    if case.files:
        return run_many(Path(case.sets), case.files)
    versions = VersionStore.open(case.store)
    storage: CountedS3 | CountedFiles = CountedFiles(case.delay / 1000)
    if case.endpoint:
        access = Access(s3=S3(endpoint=case.endpoint, region="us-east-1", path_style=True), key_id=KEY, secret=KEY)
        storage = CountedS3(access, case.delay / 1000)
    figures = collect(versions, Stores({"s3" if case.endpoint else "file": storage}), case.sets, case.cutoff)
    versions.close()
    return figures | {"requests": dict(storage.requests)}


def collect(versions: VersionStore, stores: Stores, sets_path: str, cutoff: str) -> dict[str, Any]:
    """Mark and sweep; with a cutoff that keeps single commits, each version keeps its own snapshot alone."""
    for suffix in ("", "-wal", "-shm"):
        Path(sets_path + suffix).unlink(missing_ok=True)
    now = datetime.now(UTC) + LATER
    context = Context(lambda: datetime.now(UTC) + LATER, "benchmark", lambda step, count: None)
    source = Catalog(versions)
    start, cpu = time.perf_counter(), time.process_time()
    sets = LiveSets.open(f"sqlite:///{sets_path}")
    identify.begin(sets, source, "id", MarkSettings("benchmark", Policies(now, cutoff)), context)
    record = identify.identify(sets, source, "id", context)
    fetched, mark = source.fetched, time.perf_counter() - start
    settings = expire.SweepSettings(only_named=cutoff != "NONE", is_forced=True)
    hooks = expire.Hooks(report=lambda swept: write_report(sets, swept, Path(sets_path).parent / "reports"))
    swept = expire.sweep(sets, "id", source, stores, settings, context, hooks)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert swept.outcome is not None and not swept.stopped and not swept.expansion.broken
    commits = sum(reference.commits for reference in sets.list_references(record.number))
    return {
        "wall": wall,
        "mark": mark,
        "cpu": cpu,
        "rss": peak_rss(),
        "reads": {str(kind): count for kind, count in swept.expansion.reads.items()},
        "read bytes": swept.expansion.read_bytes,
        "commits": commits,
        "distinct": len(list_reachable(versions, cutoff)),
        "fetched": fetched,
        "files": dict(swept.outcome.files),
        "freed": swept.outcome.freed_bytes,
    }


def write_report(sets: LiveSets, swept: expire.Swept, folder: Path) -> None:
    """The report that every sweep writes."""
    found = report.of_sweep(sets, swept, "sweep", {}, "", "")
    report.write(found, sets, swept.record.number, folder, swept.record.id)


def list_reachable(versions: VersionStore, cutoff: str) -> set[str]:
    """The commits that a cutoff by number keeps, by a walk of each reference alone."""
    found: set[str] = set()
    for reference in versions.list_references():
        limit = 1_000_000 if cutoff == "NONE" else int(cutoff)
        found.update(entry.commit_meta.hash for entry in versions.list_log(reference.hash, limit=limit))
    return found


def peak_rss() -> float:
    """Most memory that this process has had, in MB; the kernel forgets what the one that started it had."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000


def run_many(folder: Path, files: int) -> dict[str, Any]:
    """A table of so many empty local files, half of which are live, swept."""
    shutil.rmtree(folder, ignore_errors=True)
    lake = folder / "lake"
    versions = VersionStore.open(f"sqlite:///{_made(folder)}/catalog.db")
    write_many(lake, files, versions)
    figures = collect(versions, Stores(), str(folder / "sets.db"), "NONE")
    versions.close()
    return figures


def write_many(lake: Path, files: int, versions: VersionStore) -> None:
    """The table: one snapshot, manifests of many files each, a folder for every thousand data files."""
    manifests = []
    for start in range(0, files, 2 * PER_MANIFEST):
        entries = []
        for first in range(start, min(start + 2 * PER_MANIFEST, files), 1000):
            folder = _made(lake / "data" / f"part={first // 1000}")
            names = [f"{folder}/00000-0-{n:032x}-00001.parquet" for n in range(first, min(first + 1000, files))]
            for name in names:
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
            entries += [entry(f"file://{name}", 1, 0) for name in names[::2]]
        data = avro(MANIFEST, entries)
        path = _made(lake / "metadata") / f"{start}-m0.avro"
        path.write_bytes(data)
        manifests.append(manifest_row(f"file://{path}", len(data), 1, len(entries), 0))
    listed, metadata = lake / "metadata" / "snap-1.avro", lake / "metadata" / "1.metadata.json"
    listed.write_bytes(avro(LIST, manifests))
    snapshot = {"snapshot-id": 1, "manifest-list": f"file://{listed}"}
    metadata.write_bytes(
        msgspec.json.encode({"location": f"file://{lake}", "current-snapshot-id": 1, "snapshots": [snapshot]})
    )
    table = IcebergTable(metadata_location=f"file://{metadata}", snapshot_id=1, schema_id=0, spec_id=0, sort_order_id=0)
    head = versions.get_reference("main").hash
    put = Put(key=ContentKey.of("t"), content=table)
    versions.commit("main", head, NewCommit(message="many", committer="etl"), [put])


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def filters(places: int) -> dict[str, float]:
    """Microseconds to add a file to each kind of live set and to ask for one, and the bytes of one file in it."""
    names = [f"s3://lake/warehouse/db000/table_{n % 100:03}/data/00000-0-{n:032x}-00001.parquet" for n in range(places)]
    others = [name.replace("/data/", "/dead/") for name in names]
    found: dict[str, float] = {}
    kinds: dict[str, Callable[[], LivePlaces]] = {"exact": Exact, "bloom": lambda: Bloom(places, 0.00001, 0.0001)}
    for kind, make in kinds.items():
        tracemalloc.start()
        live = make()
        live.add(names)
        found[f"{kind}, bytes"] = tracemalloc.get_traced_memory()[0] / places
        tracemalloc.stop()
        live = make()
        for what, work in (
            ("add", lambda live=live: live.add(names)),
            ("live", lambda live=live: [name in live for name in names]),
            ("dead", lambda live=live: [name in live for name in others]),
        ):
            start = time.process_time()
            work()
            found[f"{kind}, {what} us"] = (time.process_time() - start) / places * 1e6
        found[f"{kind}, kept wrongly"] = sum(name in live for name in others)
    return found
