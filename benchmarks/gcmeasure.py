"""One collection in a process of its own, so that its memory and processor time are its own: what it took and did."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nessie_ops.catalog.stores import S3
from nessie_ops.gc import expire, identify
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.s3 import Access, S3Files
from nessie_ops.gc.source import Catalog
from nessie_ops.gc.storage import Deleted, ListedFile, LocalFiles, Stores
from nessie_ops.store.livesets import LiveSets
from nessie_ops.versioning import VersionStore

KEY = "benchmark"
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
    swept = expire.sweep(sets, "id", source, stores, settings, context)
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
    """A table of so many local files, every second of which is live, swept."""
    return {}
