"""Tables: create, load, commit, drop, rename and register Iceberg tables at any reference.

A write builds new metadata from the branch's head, writes the metadata file, and commits the pointer
with that head as the expected hash.  When the table changed meanwhile, it begins anew, so what the client
requires of the table decides; writers of different tables do not disturb each other.  Dropped tables leave
their files to the garbage collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID

import msgspec

from nessie_ops.catalog.lake import ANONYMOUS, Lake, again_when_overtaken, missing, require_namespace
from nessie_ops.catalog.listing import MAX_NAMES, Names, list_children
from nessie_ops.catalog.messages import describe
from nessie_ops.catalog.metadata import (
    check_properties,
    content_of,
    metadata_location,
    new_metadata,
    table_properties,
    to_ms,
    unsafe_properties,
    with_safe_properties,
)
from nessie_ops.catalog.outlines import check_table, folders_of
from nessie_ops.catalog.pruning import only_referenced_snapshots
from nessie_ops.catalog.requests import CreateTable, Json
from nessie_ops.catalog.requirements import check_requirements, is_create, parse_requirements
from nessie_ops.catalog.tablemetadata import (
    DEFAULT_FORMAT_VERSION,
    TableMetadata,
    parse_metadata,
    serialize_metadata,
)
from nessie_ops.catalog.updates import (
    TableUpdate,
    apply_updates,
    create_from_updates,
    parse_updates,
    with_properties,
)
from nessie_ops.errors import BadRequest, MetadataUnavailable, NoSuchTable
from nessie_ops.model import (
    Branch,
    CommitHash,
    Content,
    ContentKey,
    ContentType,
    Delete,
    IcebergTable,
    NewCommit,
    Operation,
    Put,
    Unchanged,
)
from nessie_ops.store import once

MAX_CHANGES = 1000  # tables in one transaction: bounds the metadata files that one request writes


class Loaded(NamedTuple):
    """A table or view as clients get it; `metadata` is JSON text, without location when only staged."""

    metadata_location: str | None
    metadata: bytes


class Change(NamedTuple):
    """What a client wants done to one table, as JSON of the protocol."""

    key: ContentKey
    requirements: Sequence[Json]
    updates: Sequence[Json]


class _Planned(NamedTuple):
    """A change that can be committed: the file to write, if any, and the pointer to move."""

    operation: Operation
    loaded: Loaded
    message: str

    @property
    def writes(self) -> bool:
        return isinstance(self.operation, Put)


class Tables:
    """The Iceberg tables of a catalog, at any reference."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def list_names(
        self, at: CommitHash, namespace: ContentKey, *, after: str | None = None, limit: int = MAX_NAMES
    ) -> Names:
        """Names of the tables directly in `namespace`; NamespaceNotFound."""
        require_namespace(self._lake.get(at, namespace), namespace)
        return list_children(self._lake.store, at, namespace, ContentType.ICEBERG_TABLE, after, limit)

    def exists(self, ref: str, key: ContentKey) -> bool:
        return isinstance(self._lake.get(self._lake.resolve(ref), key), IcebergTable)

    def find(self, ref: str, key: ContentKey) -> str:
        """The location of a table's metadata; it changes whenever the table does.  NoSuchTable."""
        return require_table(self._lake.get(self._lake.resolve(ref), key), key).metadata_location

    def read(self, location: str, *, all_snapshots: bool = True) -> Loaded:
        """The metadata at a location that `find` told; see `load`."""
        form, make = ("all", with_safe_properties) if all_snapshots else ("refs", _referenced)
        return Loaded(location, self._lake.files.read_as(location, check_table, form, make))

    def load(self, ref: str, key: ContentKey, *, all_snapshots: bool = True) -> Loaded:
        """A table's metadata, with all snapshots or those that its own branches and tags name; NoSuchTable."""
        return self.read(self.find(ref, key), all_snapshots=all_snapshots)

    def create(self, ref: str, namespace: ContentKey, request: CreateTable, meta: NewCommit = ANONYMOUS) -> Loaded:
        """Create an empty table, or with `stage_create` only say how it would look; NameTaken, NamespaceNotFound."""
        branch = self._lake.get_branch(ref)
        key = namespace.child(request.name).validated()
        location = self._lake.new_location(branch.hash, key, ContentType.ICEBERG_TABLE, request.location)
        metadata = new_metadata(request, location, UUID(self._lake.new_id()), self._lake.clock())
        check_properties(metadata)
        planned = self._plan(key, metadata, None, f"create table {key}")
        if request.stage_create:
            # DuckDB writes manifests before the table exists, and creates only the folders of data files.
            self._lake.files.prepare(metadata_location(location, metadata.properties, None, ""))
            return Loaded(None, planned.loaded.metadata)
        return self._write_one(branch, planned, meta)

    @again_when_overtaken
    def commit(
        self, ref: str, changes: Sequence[Change], meta: NewCommit = ANONYMOUS, *, at: CommitHash | None = None
    ) -> list[Loaded]:
        """Apply changes to one or more tables in one commit, all or none; the tables afterwards, in order.

        CommitFailed when a requirement does not hold or a table changed meanwhile (`at`: since this commit of the
        branch), NoSuchTable, BadRequest.
        """
        keys = [change.key for change in changes]
        if len(changes) > MAX_CHANGES:
            raise BadRequest(f"table-changes: {len(changes)} tables in one transaction; at most {MAX_CHANGES}.")
        if twice := {str(key) for key in keys if keys.count(key) > 1}:
            raise BadRequest(f"table-changes: {', '.join(sorted(twice))[:200]} must be named only once.")
        branch = self._lake.get_branch(ref)
        if at is not None:
            branch = Branch(branch.name, at)
        found = self._lake.store.get_contents(branch.hash, keys)
        planned = [self._plan_change(branch.hash, change, found.get(change.key)) for change in changes]
        return self._write(branch, planned, meta)

    @again_when_overtaken
    def register(
        self, ref: str, key: ContentKey, metadata_location: str, *, overwrite: bool = False, meta: NewCommit = ANONYMOUS
    ) -> Loaded:
        """Adopt a table whose metadata file lies in the warehouse; NameTaken, NamespaceNotFound, BadRequest.

        The file itself becomes the table's, unless it lets clients delete files: then its successor does.
        """
        branch = self._lake.get_branch(ref)
        location = self._lake.files.warehouse.check(metadata_location, "metadata-location")
        found = self._lake.get(branch.hash, key)
        existing = found if overwrite and isinstance(found, IcebergTable) else None
        if existing is None:
            self._lake.get_free_place(branch.hash, key, ContentType.ICEBERG_TABLE)
        try:
            raw = self._lake.files.read_foreign(location)
        except MetadataUnavailable as error:
            raise BadRequest(f"metadata-location: {error.message}") from error
        check_table(raw, location, self._lake.files.warehouse)
        metadata = parse_metadata(raw, location)
        message = f"register table {key} from {location}"
        unsafe = unsafe_properties(metadata.properties)
        if unsafe:
            safer = [with_properties(dict.fromkeys(unsafe, "false"))]
            metadata = apply_updates(metadata, location, safer, self._now_ms()) or metadata
        if unsafe:
            return self._write_one(branch, self._plan(key, metadata, location, message, existing), meta)
        put = Put(key, content_of(metadata, location, existing.id if existing else msgspec.UNSET))
        registered = Loaded(location, raw)
        self._lake.commit(branch, message, [put], meta, registered)
        return registered

    @again_when_overtaken
    def drop(self, ref: str, key: ContentKey, meta: NewCommit = ANONYMOUS) -> None:
        """Remove a table from a branch; other references keep it, and its files stay.  NoSuchTable."""
        branch = self._lake.get_branch(ref)
        require_table(self._lake.get(branch.hash, key), key)
        self._lake.commit(branch, f"drop table {key}", [Delete(key)], meta)

    @again_when_overtaken
    def rename(self, ref: str, source: ContentKey, target: ContentKey, meta: NewCommit = ANONYMOUS) -> None:
        """Give a table another name or namespace; its files stay.  NoSuchTable, NameTaken, NamespaceNotFound."""
        branch = self._lake.get_branch(ref)
        content = require_table(self._lake.get(branch.hash, source), source)
        self._lake.check_target(branch.hash, source, target)
        operations: list[Operation] = [Delete(source), Put(target, content)]
        self._lake.commit(branch, f"rename table {source} to {target}", operations, meta)

    def _now_ms(self) -> int:
        return to_ms(self._lake.clock())

    def _plan_change(self, at: CommitHash, change: Change, found: Content | None) -> _Planned:
        key = change.key
        requirements, updates = parse_requirements(change.requirements), parse_updates(change.updates)
        if is_create(requirements) and not isinstance(found, IcebergTable):
            check_requirements(requirements, None, str(key))
            return self._plan_create(at, key, updates)
        content = require_table(found, key)
        location = content.metadata_location
        raw = with_safe_properties(self._lake.files.read(location, check_table))
        before = parse_metadata(raw, location)
        check_requirements(requirements, before, str(key))
        after = apply_updates(before, location, updates, self._now_ms())
        if after is None:
            return _Planned(Unchanged(key), Loaded(location, raw), f"check table {key}")
        check_properties(after)
        return self._plan(key, after, location, describe(key, updates), content)

    def _plan_create(self, at: CommitHash, key: ContentKey, updates: Sequence[TableUpdate]) -> _Planned:
        """The end of a staged create: everything about the new table is in the updates."""
        wanted = [update.body["location"] for update in updates if update.action == "set-location"]
        location = self._lake.new_location(at, key, ContentType.ICEBERG_TABLE, wanted[-1] if wanted else None)
        metadata = create_from_updates(
            updates, DEFAULT_FORMAT_VERSION, UUID(self._lake.new_id()), location, self._now_ms()
        )
        metadata = metadata.with_properties(table_properties(metadata.properties, self._lake.clock()))
        check_properties(metadata)
        return self._plan(key, metadata, None, f"create table {key}")

    def _plan(
        self,
        key: ContentKey,
        metadata: TableMetadata,
        previous: str | None,
        message: str,
        existing: IcebergTable | None = None,
    ) -> _Planned:
        location = metadata_location(metadata.location, metadata.properties, previous, self._lake.new_id())
        content = content_of(metadata, location, existing.id if existing else msgspec.UNSET)
        raw = serialize_metadata(metadata)
        check_table(raw, str(key), self._lake.files.warehouse)
        self._lake.files.check_links(folders_of(metadata.location, metadata.properties))
        return _Planned(Put(key, content), Loaded(location, raw), message)

    def _write_one(self, branch: Branch, planned: _Planned, meta: NewCommit) -> Loaded:
        with once.returning(itemgetter(0)):
            return self._write(branch, [planned], meta)[0]

    def _write(self, branch: Branch, planned: Sequence[_Planned], meta: NewCommit) -> list[Loaded]:
        loaded = [plan.loaded for plan in planned]
        with self._lake.new_files() as write:
            changed = [plan for plan in planned if plan.writes]
            for plan in changed:
                if plan.loaded.metadata_location:
                    write(plan.loaded.metadata_location, plan.loaded.metadata, check_table)
            if changed:
                message = "; ".join(plan.message for plan in changed)
                self._lake.commit(branch, message, [plan.operation for plan in planned], meta, loaded)
        return loaded


def _referenced(raw: bytes) -> bytes:
    return only_referenced_snapshots(with_safe_properties(raw))


def require_table(found: Content | None, key: ContentKey) -> IcebergTable:
    """`found`, if it is an Iceberg table; else NoSuchTable."""
    if isinstance(found, IcebergTable):
        return found
    raise NoSuchTable(missing(ContentType.ICEBERG_TABLE, found, key), key)
