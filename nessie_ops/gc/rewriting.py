"""Rewrites the metadata of tables at the heads of branches, so that it no longer lists what nobody needs.

One commit for each branch, or, on a maintenance branch, one that is merged.  Made from the branch as it was read: a
table that somebody else changed meanwhile is left alone and named, and so is one that cannot be read or written.
Nothing is deleted here.  Doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from nessie_ops.catalog.catalog import IcebergCatalog
from nessie_ops.catalog.livefiles import DamagedFile, read_specs
from nessie_ops.catalog.tablemetadata import TableMetadata, parse_metadata
from nessie_ops.catalog.tables import MAX_CHANGES, Change
from nessie_ops.catalog.updates import apply_updates, parse_updates
from nessie_ops.errors import NessieOpsError, OutcomeUnknown, ReferenceConflict, StoreUnavailable
from nessie_ops.gc.metadata import describe
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.source import Put, Source, Version
from nessie_ops.gc.storage import StorageError, Stores
from nessie_ops.gc.surplus import Surplus, Times, find_surplus
from nessie_ops.model import CommitHash, Merge, NewCommit, ReferenceType

MAINTENANCE = "nessie_ops.maintenance"  # property of commits that change no row of any table; says what they do
_IN_MESSAGE = 20  # tables that a commit message names


class Shrunk(msgspec.Struct, frozen=True, rename="camel"):
    """A table on a branch, and what its metadata no longer lists."""

    branch: str
    table: str
    snapshots: int
    partition_specs: int
    schemas: int

    def __str__(self) -> str:
        counts = ((self.snapshots, "snapshots"), (self.partition_specs, "partition specs"), (self.schemas, "schemas"))
        what = ", ".join(f"{count:,} {name}" for count, name in counts if count)
        return f"{self.table} on {self.branch}: {what or 'statistics of snapshots that are gone'}"


class Untouched(msgspec.Struct, frozen=True, rename="camel"):
    """A table on a branch whose metadata still lists everything, and why; it is a fault but for a writer in between."""

    branch: str
    table: str
    why: str
    is_fault: bool


class Rewritten(NamedTuple):
    """What was done, or would be; `planned` are the snapshots that would stay, by metadata file."""

    shrunk: list[Shrunk]
    untouched: list[Untouched]
    planned: dict[str, frozenset[int]]


class _Plan(NamedTuple):
    change: Change
    surplus: Surplus


class Rewriter:
    """`named` are the snapshots of live versions by content, None where nobody knows; `on` a branch for the work."""

    def __init__(
        self,
        catalog: IcebergCatalog,
        source: Source,
        stores: Stores,
        named: Mapping[str, frozenset[int] | None],
        times: Times,
        *,
        on: str = "",
        is_dry_run: bool = False,
        progress: Callable[[str, int], None] = lambda step, count: None,
    ) -> None:
        self._catalog, self._source, self._stores = catalog, source, stores
        self._named, self._times, self._on, self._is_dry_run = named, times, on, is_dry_run
        self._progress = progress
        self._looked = 0
        self._result = Rewritten([], [], {})

    def rewrite(self, branches: Mapping[str, CommitHash]) -> Rewritten:
        """Rewrite what these branches show at these commits."""
        for branch, at in branches.items():
            plans = list(filter(None, (self._try(branch, put) for put in self._source.visible(at))))
            for start in range(0, len(plans), MAX_CHANGES):
                part = plans[start : start + MAX_CHANGES]
                done = part if self._is_dry_run else self._commit(branch, at, part)
                self._result.shrunk.extend(_tell(branch, plan) for plan in done)
        return self._result

    def _try(self, branch: str, put: Put) -> _Plan | None:
        if not put.version.is_table:
            return None
        self._looked += 1
        self._progress("tables looked at for snapshots to expire", self._looked)
        try:
            return self._plan(put)
        except (OutcomeUnknown, StoreUnavailable):
            raise
        except (NessieOpsError, StorageError, NotAPlace) as error:
            self._result.untouched.append(Untouched(branch, str(put.key), str(error), True))
            return None

    def _plan(self, put: Put) -> _Plan | None:
        location = put.version.metadata_location
        named = self._named.get(put.version.content_id, frozenset())
        if named is None:
            raise StorageError("an older version that is kept cannot be read, so what it needs is not known")
        table = parse_metadata(self._catalog.tables.read(location).metadata, location)
        surplus = find_surplus(table, named, self._times, self._specs_of)
        if not surplus:
            return None
        updates = surplus.updates()
        apply_updates(table, location, parse_updates(updates), self._times.now_ms)  # so that one table alone is refused
        known = self._result.planned.get(location, frozenset())
        self._result.planned[location] = surplus.kept | known
        return _Plan(Change(put.key, list_requirements(table), updates), surplus)

    def _specs_of(self, snapshots: Sequence[Mapping[str, object]]) -> set[int] | None:
        used: set[int] = set()
        for snapshot in snapshots:
            location = snapshot.get("manifest-list")
            if not location:
                return None
            try:
                used |= read_specs(self._stores.of(str(location)).read(str(location)))
            except (FileNotFoundError, DamagedFile):
                return None  # a table that is broken is told of elsewhere; its specs stay
        return used

    def _commit(self, branch: str, at: CommitHash, plans: Sequence[_Plan]) -> Sequence[_Plan]:
        """Those that were committed; after a conflict, the tables that have none are tried again."""
        while plans:
            try:
                self._write(branch, at, plans)
                return plans
            except (OutcomeUnknown, StoreUnavailable):
                raise
            except NessieOpsError as error:
                conflicts = error.conflicts if isinstance(error, ReferenceConflict) else ()
                lost = {conflict.key for conflict in conflicts} & {plan.change.key for plan in plans}
                gone = [plan for plan in plans if not lost or plan.change.key in lost]
                why = f"somebody else changed it: {error.message}" if lost else error.message
                self._result.untouched.extend(Untouched(branch, str(each.change.key), why, not lost) for each in gone)
                plans = [plan for plan in plans if plan not in gone]
        return ()

    def _write(self, branch: str, at: CommitHash, plans: Sequence[_Plan]) -> None:
        changes = [plan.change for plan in plans]
        meta = NewCommit(message=_message(plans), properties={MAINTENANCE: ("expire snapshots",)})
        if not self._on:
            self._catalog.tables.commit(branch, changes, meta, at=at)
            return
        store = self._catalog.version_store
        store.create_reference(ReferenceType.BRANCH, self._on, at)
        try:
            self._catalog.tables.commit(self._on, changes, meta)
            head = store.get_reference(self._on).hash
            store.merge(branch, at, Merge(from_ref=self._on, from_hash=head, meta=meta))
        finally:
            store.delete_reference(self._on, None)


def name_snapshots(versions: Iterable[Version], stores: Stores) -> dict[str, frozenset[int] | None]:
    """The snapshots that versions name, by content; None for one of which a version cannot be read that must be."""
    found: dict[str, set[int]] = {}
    unknown: set[str] = set()
    for version in versions:
        if not version.is_table:
            continue
        ids = found.setdefault(version.content_id, set())
        if version.snapshot_id >= 0:
            ids.add(version.snapshot_id)
            continue
        try:  # Writers that know no snapshot say -1, and mean the current one.
            raw = stores.of(version.metadata_location).read(version.metadata_location)
            current = describe(raw).current
        except FileNotFoundError:
            continue
        except (StorageError, DamagedFile, NotAPlace):
            unknown.add(version.content_id)
            continue
        if current is not None:
            ids.add(current)
    return {content: None if content in unknown else frozenset(ids) for content, ids in found.items()}


def list_requirements(table: TableMetadata) -> list[dict[str, object]]:
    """What must hold of a table that is to be rewritten: that its branches and tags are where they were."""
    found: list[dict[str, object]] = [
        {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": ref["snapshot-id"]}
        for name, ref in table.refs.items()
    ]
    if table.table_uuid:
        found.append({"type": "assert-table-uuid", "uuid": table.table_uuid})
    return found


def _message(plans: Sequence[_Plan]) -> str:
    lines = [f"{plan.change.key}: {plan.surplus}" for plan in plans[:_IN_MESSAGE]]
    if len(plans) > _IN_MESSAGE:
        lines.append(f"and {len(plans) - _IN_MESSAGE:,} more tables")
    total = sum(len(plan.surplus.snapshots) for plan in plans)
    return "\n".join([f"expire {total:,} snapshots of {len(plans):,} tables", "", *lines])


def _tell(branch: str, plan: _Plan) -> Shrunk:
    surplus = plan.surplus
    return Shrunk(branch, str(plan.change.key), len(surplus.snapshots), len(surplus.specs), len(surplus.schemas))
