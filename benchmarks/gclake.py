"""A catalog to be collected, made without an engine: as many commits, snapshots and files as were measured of the peer.

    main: every table gets snapshot after snapshot, each tenth of which rewrites the nine before into one file;
    three tags and five branches begin at old commits, and the branches go on for themselves.

Metadata files have a history of up to 100 entries, manifests and lists the schemas and fields that Iceberg's writers
give them; data files are empty but for a few bytes.  Equal settings give equal catalogs.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import fastavro
import msgspec
from pyiceberg import manifest as pyiceberg
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from nessie_ops.model import ContentKey, IcebergTable, IcebergView, Namespace, NewCommit, Put, ReferenceType
from nessie_ops.model.content import with_id
from nessie_ops.versioning import VersionStore

COLUMNS = 12
LOG = 100  # entries of the log of previous metadata
REWRITE = 10  # every so many snapshots
TAGGED, BRANCHED, BRANCHES = (46, 50, 100), 50, 5  # after which snapshots, and how many branches
LIST = fastavro.parse_schema(
    AvroSchemaConversion().iceberg_to_avro(pyiceberg.MANIFEST_LIST_FILE_SCHEMAS[2], schema_name="manifest_file")
)
MANIFEST = fastavro.parse_schema(
    AvroSchemaConversion().iceberg_to_avro(
        pyiceberg.manifest_entry_schema_with_data_file(2, pyiceberg.data_file_with_partition(StructType(), 2)),
        schema_name="manifest_entry",
    )
)
Kind = TypeVar("Kind", IcebergTable, IcebergView, Namespace)
_FIELDS = [{"id": n, "name": f"column_{n}", "required": False, "type": "string"} for n in range(1, COLUMNS + 1)]


@dataclass(frozen=True)
class Plan:
    """Counts of a catalog, as they were of the peer's."""

    tables: int = 100
    snapshots: int = 100
    branched: int = 179  # snapshots on branches
    properties: int = 113  # metadata files that only set a property
    views: int = 4
    namespaces: int = 71
    third_files: int = 1477  # snapshots that add three files, not two
    delete_manifests: int = 85
    junk: int = 1120

    def scaled(self, size: float) -> Plan:
        """A smaller catalog of the same form."""
        return Plan(
            **{name: max(1, round(value * (1 if name == "snapshots" else size))) for name, value in vars(self).items()}
        )


@dataclass
class Made:
    """What the builder wrote, by kind."""

    files: int = 0
    size_bytes: int = 0
    kinds: dict[str, int] = field(default_factory=dict)


@dataclass
class Table:
    """A table on one branch, as its writer knows it."""

    number: int
    location: str
    content: IcebergTable | None = None
    manifests: list[dict[str, Any]] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    version: int = 0

    def copy(self) -> Table:
        """The same table on another branch."""
        lists = (list(self.manifests), list(self.snapshots), list(self.log))
        return Table(self.number, self.location, self.content, *lists, self.version)


class Builder:
    """Writes files below `folder`, which readers know as `root`, and commits them in `versions`."""

    def __init__(self, versions: VersionStore, folder: Path, root: str, plan: Plan, tick: Callable[[], int]) -> None:
        self._versions, self._folder, self._root, self._plan, self._tick = versions, folder, root, plan, tick
        self._random = Random(7)
        self._head = {"main": versions.get_reference("main").hash}
        self._third, self._deletes = plan.third_files, plan.delete_manifests
        self.made = Made()

    def build(self, progress: Callable[[str], None]) -> Made:
        """Build all of it."""
        plan = self._plan
        for n in range(plan.namespaces):
            self._commit("main", (f"db{n:03}",), Namespace(elements=(f"db{n:03}",)))
        tables = [self._create(n) for n in range(plan.tables)]
        branches: dict[str, list[Table]] = {}
        for n in range(1, plan.snapshots + 1):
            for table in tables:
                self._append(table, "main")
            if n in TAGGED:
                self._versions.create_reference(ReferenceType.TAG, f"tag-{n:03}", self._head["main"])
            if n == BRANCHED:
                branches = {self._branch(k): [table.copy() for table in tables] for k in range(BRANCHES)}
            progress(f"snapshot {n} of {plan.snapshots}")
        for n in range(plan.branched):
            name = sorted(branches)[n % len(branches)]
            self._append(branches[name][n // len(branches) % plan.tables], name)
        for n in range(plan.properties):
            self._save(tables[n % plan.tables], "main")
        for n in range(plan.views):
            data = _view(f"{self._root}/views/v{n}")
            location = self._write(f"views/v{n}/metadata/00000-{self._id()}.metadata.json", "views", data)
            view = IcebergView(metadata_location=location, version_id=1, schema_id=0)
            self._commit("main", ("db000", f"view_{n}"), view)
        for n in range(plan.junk):
            self._write(f"db000/table_{n % plan.tables:03}/data/orphan-{n}-{self._id()}.parquet", "junk", b"PAR1")
        return self.made

    def _create(self, number: int) -> Table:
        table = Table(number, f"{self._root}/db000/table_{number:03}")
        self._save(table, "main")
        return table

    def _branch(self, n: int) -> str:
        name = f"branch-{n:03}"
        self._versions.create_reference(ReferenceType.BRANCH, name, self._head["main"])
        self._head[name] = self._head["main"]
        return name

    def _append(self, table: Table, branch: str) -> None:
        """One more snapshot."""
        count = 2 + (self._third > 0)
        self._third -= 1
        snapshot = self._random.getrandbits(62)
        if (len(table.snapshots) + 1) % REWRITE == 0:
            table.manifests[1 - REWRITE :] = [self._manifest(table, snapshot, 1)]
        table.manifests.append(self._manifest(table, snapshot, count))
        if branch != "main" and self._deletes > 0:
            self._deletes -= 1
            table.manifests.append(self._manifest(table, snapshot, 1, content=1))
        name = f"metadata/snap-{snapshot}-1-{self._id()}.avro"
        listed = self._write(f"{self._relative(table)}/{name}", "lists", avro(LIST, table.manifests))
        table.snapshots.append(_snapshot(snapshot, len(table.snapshots), listed, count))
        self._save(table, branch, snapshot)

    def _manifest(self, table: Table, snapshot: int, count: int, content: int = 0) -> dict[str, Any]:
        """A new manifest with `count` new files."""
        entries = []
        for _ in range(count):
            name = f"{self._relative(table)}/data/00000-0-{self._id()}-00001.parquet"
            entries.append(entry(self._write(name, "data", b"PAR1"), snapshot, content))
        data = avro(MANIFEST, entries)
        location = self._write(f"{self._relative(table)}/metadata/{self._id()}-m0.avro", "manifests", data)
        return manifest_row(location, len(data), snapshot, count, content)

    def _save(self, table: Table, branch: str, snapshot: int = 0) -> None:
        """Write the table's metadata and commit it."""
        name = f"{self._relative(table)}/metadata/{table.version:05}-{self._id()}.metadata.json"
        current = snapshot or (table.content.snapshot_id if table.content else -1)
        location = self._write(name, "metadata", _metadata(table, current))
        table.log = [*table.log, f'{{"timestamp-ms":{_TIME},"metadata-file":"{location}"}}'][-LOG:]
        table.version += 1
        content = IcebergTable(metadata_location=location, snapshot_id=current, schema_id=0, spec_id=0, sort_order_id=0)
        if table.content:
            content = with_id(content, str(table.content.id))
        table.content = self._commit(branch, ("db000", f"table_{table.number:03}"), content)

    def _commit(self, branch: str, key: tuple[str, ...], content: Kind) -> Kind:
        """Commit a content; it with its id."""
        self._tick()
        put = Put(key=ContentKey.of(*key), content=content)
        made = self._versions.commit(branch, self._head[branch], NewCommit(message="append", committer="etl"), [put])
        self._head[branch] = made.target_branch.hash
        return with_id(content, str(made.added_contents[0].content_id)) if made.added_contents else content

    def _write(self, name: str, kind: str, data: bytes) -> str:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.made.files += 1
        self.made.size_bytes += len(data)
        self.made.kinds[kind] = self.made.kinds.get(kind, 0) + 1
        return f"{self._root}/{name}"

    def _relative(self, table: Table) -> str:
        return f"db000/table_{table.number:03}"

    def _id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


_TIME = 1_700_000_000_000


def avro(schema: Any, rows: list[dict[str, Any]], codec: str = "deflate") -> bytes:
    """An Avro file of these rows."""
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec=codec)
    return out.getvalue()


def _view(location: str) -> bytes:
    return msgspec.json.encode({"view-uuid": str(uuid.UUID(int=1)), "format-version": 1, "location": location})


def _snapshot(id: int, sequence: int, manifest_list: str, count: int) -> str:
    units = ("data-files", "records", "files-size")
    counts = {f"{what}-{unit}": str(n * 1000) for n, what in enumerate(("added", "total")) for unit in units}
    summary = {"operation": "append", "engine-name": "spark", "engine-version": "4.1.0", "app-id": "local-1", **counts}
    found = {
        "sequence-number": sequence,
        "snapshot-id": id,
        "timestamp-ms": _TIME,
        "summary": summary | {"added-data-files": str(count)},
        "manifest-list": manifest_list,
        "schema-id": 0,
    }
    return msgspec.json.encode(found).decode()


def _metadata(table: Table, current: int) -> bytes:
    schema = msgspec.json.encode({"type": "struct", "schema-id": 0, "fields": _FIELDS}).decode()
    return (
        f'{{"format-version":2,"table-uuid":"{uuid.UUID(int=table.number)}","location":"{table.location}",'
        f'"last-sequence-number":{len(table.snapshots)},"last-updated-ms":{_TIME},"last-column-id":{COLUMNS},'
        f'"current-schema-id":0,"schemas":[{schema}],'
        f'"default-spec-id":0,"partition-specs":[{{"spec-id":0,"fields":[]}}],'
        f'"last-partition-id":999,"default-sort-order-id":0,"sort-orders":[{{"order-id":0,"fields":[]}}],'
        f'"properties":{{"write.format.default":"parquet","version":"{table.version}"}},'
        f'"current-snapshot-id":{current},"snapshots":[{",".join(table.snapshots)}],"statistics":[],'
        f'"snapshot-log":[],"metadata-log":[{",".join(table.log)}]}}'
    ).encode()


def entry(location: str, snapshot: int, content: int) -> dict[str, Any]:
    """A manifest's row for a new file."""
    counts = [{"key": n, "value": 1000 + n} for n in range(1, COLUMNS + 1)]
    bounds = [{"key": n, "value": f"value {n}".encode()} for n in range(1, COLUMNS + 1)]
    data = {"content": content, "file_path": location, "file_format": "PARQUET", "partition": {}}
    data |= {"record_count": 1000, "file_size_in_bytes": 4}
    data |= dict.fromkeys(("column_sizes", "value_counts", "null_value_counts"), counts)
    data |= dict.fromkeys(("lower_bounds", "upper_bounds"), bounds) | {"sort_order_id": 0}
    return {"status": 1, "snapshot_id": snapshot, "data_file": data}


def manifest_row(location: str, length: int, snapshot: int, count: int, content: int) -> dict[str, Any]:
    """A list's row for a new manifest."""
    none = [f"{kind}_{unit}_count" for kind in ("existing", "deleted") for unit in ("files", "rows")]
    return {
        **dict.fromkeys(["sequence_number", "min_sequence_number", *none], 0),
        "manifest_path": location,
        "manifest_length": length,
        "partition_spec_id": 0,
        "content": content,
        "added_snapshot_id": snapshot,
        "added_files_count": count,
        "added_rows_count": 1000 * count,
    }


def ticking(commits: int) -> tuple[Callable[[], datetime], Callable[[], int]]:
    """A clock that tells a second more after each tick, and is at the present after so many."""
    passed = 0
    start = datetime.now(UTC) - timedelta(seconds=commits)

    def tick() -> int:
        nonlocal passed
        passed += 1
        return passed

    return lambda: start + timedelta(seconds=passed), tick
