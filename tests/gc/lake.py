"""A small lake with a history, made without an engine, that knows what each of its metadata files needs.

Its files are in fsspec's memory file system; the catalog is a version store in memory.  Times are set by hand.
"""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import fastavro
import fsspec

from nessie_ops.model import ContentKey, Delete, IcebergTable, IcebergView, NewCommit, Put
from nessie_ops.model.content import with_id
from nessie_ops.versioning.versionstore import VersionStore

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
_LAKES = count()
_LIST = fastavro.parse_schema(
    {
        "type": "record",
        "name": "manifest_file",
        "fields": [{"name": "manifest_path", "type": "string"}, {"name": "manifest_length", "type": "long"}],
    }
)
_MANIFEST = fastavro.parse_schema(
    {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int"},
            {
                "name": "data_file",
                "type": {
                    "type": "record",
                    "name": "r2",
                    "fields": [
                        {"name": "content", "type": "int"},
                        {"name": "file_path", "type": "string"},
                        {"name": "file_size_in_bytes", "type": "long"},
                    ],
                },
            },
        ],
    }
)


def avro(schema: Any, rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows)
    return out.getvalue()


@dataclass
class Snapshot:
    """A snapshot: its manifest list, manifests by location with the files that they hold, and its statistics."""

    id: int
    list_location: str  # empty where the metadata names the manifests itself
    manifests: dict[str, tuple[str, ...]]
    statistics: tuple[str, ...] = ()

    @property
    def files(self) -> set[str]:
        return {self.list_location, *self.manifests, *self.statistics}.union(*self.manifests.values()) - {""}


@dataclass
class State:
    """What a metadata file says of a table (or of a view, which has no snapshots)."""

    location: str
    is_table: bool = True
    snapshots: tuple[Snapshot, ...] = ()
    log: tuple[str, ...] = ()


@dataclass
class Lake:
    """`needs` has, for each metadata file, the state that it describes.

    One that `is_varied` has compressed metadata, manifests that metadata names itself, and statistics of partitions.
    """

    is_varied = False

    now: datetime = START
    needs: dict[str, State] = field(default_factory=dict)
    ids: Any = field(default_factory=count)

    def __post_init__(self) -> None:
        self.root = f"memory:///lake{next(_LAKES)}"
        self.fs = fsspec.filesystem("memory")
        self.versions = VersionStore.open("sqlite://", clock=lambda: self.now)

    def close(self) -> None:
        self.versions.close()
        if self.fs.exists(self.root):
            self.fs.rm(self.root, recursive=True)

    # -- files --------------------------------------------------------------------------------

    def write(self, location: str, data: bytes = b"x") -> str:
        """A file that was changed now."""
        path = self.fs._strip_protocol(location)
        self.fs.pipe_file(path, data)
        self.fs.store[path].created = self.now
        return location

    def list_files(self) -> dict[str, datetime]:
        """All files with the times when they were changed."""
        root = self.fs._strip_protocol(self.root) + "/"
        return {f"memory://{path}": file.created for path, file in self.fs.store.items() if path.startswith(root)}

    # -- tables -------------------------------------------------------------------------------

    def state(self, branch: str, key: str) -> State | None:
        found = self.content(branch, key)
        return self.needs[found.metadata_location] if found else None

    def content(self, branch: str, key: str) -> IcebergTable | IcebergView | None:
        head = self.versions.get_reference(branch).hash
        found = self.versions.get_contents(head, [ContentKey.of(key)]).get(ContentKey.of(key))
        assert found is None or isinstance(found, IcebergTable | IcebergView)
        return found

    def append(self, state: State, names: list[str], *, statistics: bool = False) -> State:
        """`state` with one more snapshot that adds data files of these names."""
        before = state.snapshots[-1].manifests if state.snapshots else {}
        files = tuple(self.write(f"{state.location}/data/{name}-{next(self.ids)}.parquet") for name in names)
        return self._with_snapshot(state, {**before, **self._manifest(state, files)}, statistics)

    def delete(self, state: State, keep: int) -> State:
        """`state` with one more snapshot that has one new manifest of `keep` of the files."""
        files = [file for files in state.snapshots[-1].manifests.values() for file in files] if state.snapshots else []
        return self._with_snapshot(state, self._manifest(state, tuple(files[:keep]), tuple(files[keep:])), False)

    def expire(self, state: State) -> State:
        """`state` with its last snapshot alone."""
        return State(state.location, state.is_table, state.snapshots[-1:], state.log)

    def _manifest(
        self, state: State, files: tuple[str, ...], removed: tuple[str, ...] = ()
    ) -> dict[str, tuple[str, ...]]:
        rows = [{"status": n % 2, "data_file": _data(file, n % 3)} for n, file in enumerate(files)]
        rows += [{"status": 2, "data_file": _data(file, 0)} for file in removed]
        location = f"{state.location}/metadata/m{next(self.ids)}.avro"
        return {self.write(location, avro(_MANIFEST, rows)): files}

    def _with_snapshot(self, state: State, manifests: dict[str, tuple[str, ...]], statistics: bool) -> State:
        number = next(self.ids)
        location = f"{state.location}/metadata/snap-{number}.avro"
        if self.is_varied and number % 5 == 0:
            location = ""
        else:
            self.write(location, avro(_LIST, [{"manifest_path": name, "manifest_length": 1} for name in manifests]))
        kinds = (".stats", ".pstats") if self.is_varied else (".stats",)
        puffins = tuple(self.write(f"{state.location}/metadata/{number}{kind}") for kind in kinds if statistics)
        snapshot = Snapshot(number, location, manifests, puffins)
        return State(state.location, True, (*state.snapshots, snapshot), state.log)

    # -- commits ------------------------------------------------------------------------------

    def save(self, state: State, previous: str | None) -> str:
        """The location of a new metadata file."""
        log = (*state.log, previous)[-2:] if previous and state.is_table else ()
        number = next(self.ids)
        packs = self.is_varied and number % 3 == 0
        location = f"{state.location}/metadata/{number}{'.gz' if packs else ''}.metadata.json"
        saved = State(state.location, state.is_table, state.snapshots, log)
        self.needs[location] = saved
        return self.write(location, gzip.compress(_metadata(saved)) if packs else _metadata(saved))

    def put(self, branch: str, key: str, state: State, *, same_content: bool = True) -> None:
        """Commit a state of a table or view, an hour later; otherwise than `same_content`, as a new one."""
        old = self.content(branch, key)
        self.put_location(branch, key, self.save(state, old.metadata_location if old else None), same_content)

    def put_location(self, branch: str, key: str, location: str, same_content: bool = True) -> None:
        """Commit a metadata file under a key."""
        old, state, name = self.content(branch, key), self.needs[location], ContentKey.of(key)
        last = state.snapshots[-1].id if state.snapshots else -1
        content: IcebergTable | IcebergView = (
            IcebergTable(metadata_location=location, snapshot_id=last, schema_id=0, spec_id=0, sort_order_id=0)
            if state.is_table
            else IcebergView(metadata_location=location, version_id=1, schema_id=0)
        )
        if old and (not same_content or old.type != content.type):
            self.commit(branch, Delete(key=name))
            old = None
        self.commit(branch, Put(key=name, content=with_id(content, str(old.id)) if old else content))

    def commit(self, branch: str, *operations: Put | Delete) -> None:
        """Commit an hour later."""
        self.now += HOUR
        head = self.versions.get_reference(branch).hash
        self.versions.commit(branch, head, NewCommit(message="m", committer="c"), operations)


def _data(location: str, content: int) -> dict[str, Any]:
    return {"content": content, "file_path": location, "file_size_in_bytes": 1}


def _metadata(state: State) -> bytes:
    if not state.is_table:
        return json.dumps({"format-version": 1, "location": state.location, "versions": []}).encode()
    snapshots = [
        {"snapshot-id": each.id}
        | ({"manifest-list": each.list_location} if each.list_location else {"manifests": list(each.manifests)})
        for each in state.snapshots
    ]
    statistics = {
        kind: [
            {"snapshot-id": each.id, "statistics-path": path}
            for each in state.snapshots
            for path in each.statistics
            if path.endswith(kind)
        ]
        for kind in (".stats", ".pstats")
    }
    found = {
        "format-version": 2,
        "location": state.location,
        "current-snapshot-id": state.snapshots[-1].id if state.snapshots else -1,
        "snapshots": snapshots,
        "statistics": statistics[".stats"],
        "partition-statistics": statistics[".pstats"],
        "metadata-log": [{"metadata-file": name, "timestamp-ms": 1} for name in state.log],
    }
    return json.dumps(found).encode()
