"""A lake on a local disk, whose catalog is a file, for command lines and processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nessie_ops.versioning.versionstore import VersionStore
from tests.gc.lake import HOUR, Lake, State

OLD = timedelta(days=30)  # how long ago the lake begins


class DiskLake(Lake):
    """A lake in a folder; `store` is the URL of its catalog."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lake"
        super().__init__(now=(datetime.now(UTC) - OLD).replace(microsecond=0))

    def __post_init__(self) -> None:
        self.root = f"file://{self.folder}"
        self.store = f"sqlite:///{self.folder.parent}/catalog.db"
        self.versions = VersionStore.open(self.store, clock=lambda: self.now)

    def close(self) -> None:
        self.versions.close()

    def write(self, location: str, data: bytes = b"x") -> str:
        path = Path(location.removeprefix("file://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (self.now.timestamp(), self.now.timestamp()))
        return location

    def list_files(self) -> dict[str, datetime]:
        paths = (path for path in self.folder.rglob("*") if path.is_file())
        return {f"file://{path}": datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in paths}

    def grow(self, key: str, snapshots: int, location: str = "") -> State:
        """A table on main with so many commits, each of which adds a file, and puts away all earlier snapshots."""
        state = State(location or f"{self.root}/{key}")
        for _ in range(snapshots):
            state = self.append(State(state.location), ["x"])  # an engine that expires snapshots and the log
            self.put("main", key, state)
        return state


@contextmanager
def small_lake(folder: Path, versions: int = 3) -> Iterator[DiskLake]:
    """Two tables of so many versions, of which heads need the last alone, and a file that nobody committed."""
    lake = DiskLake(folder)
    try:
        lake.grow("a", versions)
        lake.grow("b", versions)
        lake.write(f"{lake.root}/a/data/orphan.parquet", b"orphan")
        lake.now += HOUR
        yield lake
    finally:
        lake.close()
