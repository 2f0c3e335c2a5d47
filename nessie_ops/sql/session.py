"""SqlSession: carries out statements on a catalog, and remembers which reference they are about.

The reference is a name, or a name with a commit; reading at a commit goes on there until another USE.  One method per
statement; each gives a table whose columns are those of Nessie's own extension of Spark.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import singledispatchmethod
from typing import Any, NamedTuple

import msgspec

from nessie_ops.client import NessieClient
from nessie_ops.errors import (
    BadRequest,
    NessieOpsError,
    ReferenceAlreadyExists,
    ReferenceNotFound,
    TransactionNotFound,
    TransactionNotOpen,
)
from nessie_ops.model import (
    CatalogTransaction,
    CatalogTransactionState,
    Detached,
    NewCatalogTransaction,
    Reference,
    ReferenceType,
    Tag,
)
from nessie_ops.model.transactions import DEFAULT_LEASE_S
from nessie_ops.sql import contents, merging
from nessie_ops.sql import statements as s
from nessie_ops.sql.parsing import parse
from nessie_ops.sql.places import describe, find, to_spec

REFERENCE = ("refType", "name", "hash")
LOG = ("author", "committer", "hash", "message", "signedOffBy", "authorTime", "committerTime", "properties")
DIFF = ("key", "change", "typeBefore", "typeAfter")
STATUS = ("status",)
TRANSACTION = ("id", "branch", "target", "isolation", "startHash")
DEFAULT_LIMIT = 10_000  # rows of a log or a difference, unless the statement says


class Result(NamedTuple):
    """A table: names of columns, and rows of texts, times (UTC), dictionaries of texts, or None."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class SqlSession:
    """Statements of one person or program, one after the other."""

    def __init__(
        self,
        client: NessieClient,
        *,
        ref: str = "",
        catalog: str = "",
        limit: int = DEFAULT_LIMIT,
        lease_seconds: int = DEFAULT_LEASE_S,
    ) -> None:
        """Begin at `ref`, a reference or one with a commit (`main@<hash>`), by default the default branch.

        `catalog` is the name that IN may say; empty: any.  ReferenceNotFound, BadRequest.
        """
        self.client = client
        self.catalog = catalog
        self.ref = ref or client.default_branch
        self.transaction: CatalogTransaction | None = None
        self._limit, self._before = limit, ""  # the reference before the transaction
        self._lease_seconds = lease_seconds
        client.resolve(self.ref)

    def sql(self, text: str) -> list[Result]:
        """Carry out the statements of a text, in order, up to the first that fails; none when one cannot be read."""
        return [self.execute(statement) for statement in parse(text)]

    def execute(self, statement: s.Statement) -> Result:
        """Carry out one statement.  BadRequest, ReferenceNotFound, ReferenceConflict and others of the catalog."""
        named = getattr(statement, "catalog", None)
        if named is not None and self.catalog and named != self.catalog:
            raise BadRequest(f"IN {named}: this session's catalog is {self.catalog}.")
        return self._run(statement)

    @singledispatchmethod
    def _run(self, statement: object) -> Result:
        raise TypeError(f"{type(statement).__name__} is not a statement")

    # -- references ---------------------------------------------------------------------------

    @_run.register
    def _(self, wanted: s.CreateReference) -> Result:
        source = find(self.client, wanted.source, self.ref)
        try:
            made: Reference = self.client.create_reference(wanted.kind, wanted.name, source.hash)
        except ReferenceAlreadyExists:
            if not wanted.if_not_exists:
                raise
            made = self._get(wanted.kind, wanted.name)
        return Result(REFERENCE, [describe(made)])

    @_run.register
    def _(self, wanted: s.DropReference) -> Result:
        if self.transaction and wanted.name == self.transaction.branch:  # what follows would be done outside of it
            raise BadRequest(f"DROP: '{wanted.name}' is the branch of the open transaction; ROLLBACK drops it.")
        try:
            found = self._get(wanted.kind, wanted.name)
            self.client.delete_reference(wanted.name, found.hash)
        except ReferenceNotFound:
            if not wanted.if_exists:
                raise
        else:
            if self.ref.partition("@")[0] == wanted.name:
                self.ref = self.client.default_branch
        return Result(STATUS, [("OK",)])

    @_run.register
    def _(self, wanted: s.AssignReference) -> Result:
        if wanted.name is None and "@" in self.ref:  # else the branch would be set back to what the session reads
            raise BadRequest(
                f"ASSIGN: the session reads {self.ref}, a commit; say which {wanted.kind.lower()} to assign."
            )
        before = self._get(wanted.kind, wanted.name or self.ref)
        target = find(self.client, wanted.target, self.ref)
        return Result(REFERENCE, [describe(self.client.assign_reference(before.name, before.hash, target.hash))])

    @_run.register
    def _(self, wanted: s.Use) -> Result:
        assert wanted.place.name is not None  # the grammar's
        if self.transaction:
            raise BadRequest(f"USE: transaction {self.transaction.id} is open; COMMIT or ROLLBACK it first.")
        if wanted.kind:
            self._get(wanted.kind, wanted.place.name)
        found = find(self.client, wanted.place, self.ref)
        # A time or a step is looked up once: what it means later may be another commit.
        is_moving = not wanted.place.at and found.name == wanted.place.name
        self.ref = found.name if is_moving else f"{'' if isinstance(found, Detached) else found.name}@{found.hash}"
        return Result(REFERENCE, [describe(found)])

    @_run.register
    def _(self, wanted: s.ShowReference) -> Result:
        return Result(REFERENCE, [describe(find(self.client, wanted.place, self.ref))])

    @_run.register
    def _(self, wanted: s.ListReferences) -> Result:
        """Branches by name, then tags by name."""
        chosen, filter = wanted.selection, wanted.selection.filter
        if chosen.contains:
            filter = f"ref.name.contains({json.dumps(chosen.contains, ensure_ascii=False)})"
        rows: list[tuple[Any, ...]] = []
        after: tuple[ReferenceType, str] | None = None
        while True:
            page = self.client.list_references(prefix=chosen.starts_with, filter=filter, after=after)
            rows += map(describe, page)
            if len(page) < DEFAULT_LIMIT:
                return Result(REFERENCE, rows)
            kind = ReferenceType.TAG if isinstance(page[-1], Tag) else ReferenceType.BRANCH
            after = kind, page[-1].name

    def _get(self, kind: ReferenceType, name: str) -> Reference:
        """The reference; BadRequest when it is of the other kind."""
        found = self.client.get_reference(name)
        if isinstance(found, Tag) != (kind is ReferenceType.TAG):
            raise BadRequest(f"'{name}' is a {'tag' if isinstance(found, Tag) else 'branch'}, not a {kind.lower()}.")
        return found

    # -- transactions -------------------------------------------------------------------------

    @_run.register
    def _(self, wanted: s.StartTransaction) -> Result:
        """From now on, what the session reads and writes is the transaction's branch."""
        if self.transaction:
            raise BadRequest(f"START TRANSACTION: {self.transaction.id} is open; COMMIT or ROLLBACK it first.")
        target = wanted.on or self.ref
        if "@" in target:
            raise BadRequest(f"START TRANSACTION: the session reads {target}, a commit; name a branch by ON.")
        new = NewCatalogTransaction(target=target, isolation=wanted.isolation, lease_seconds=self._lease_seconds)
        begun = self.client.begin_transaction(new)
        self.transaction, self._before, self.ref = begun, self.ref, begun.branch
        return Result(TRANSACTION, [(begun.id, begun.branch, begun.target, str(begun.isolation), begun.start_hash)])

    @_run.register
    def _(self, wanted: s.CommitTransaction) -> Result:
        """After a conflict the transaction is still open, to be looked at and rolled back."""
        open = self._require_transaction("COMMIT")
        done = self.client.commit_transaction(open.id, message=wanted.message)
        self._leave()
        return Result(("name", "hash"), [(done.target, done.commit_hash)])

    @_run.register
    def _(self, wanted: s.RollbackTransaction) -> Result:
        """One that has ended otherwise is left, too; TransactionNotOpen says so when it was committed."""
        open = self._require_transaction("ROLLBACK")
        try:
            self.client.rollback_transaction(open.id)
        except TransactionNotFound:
            pass
        except TransactionNotOpen:
            if self.client.get_transaction(open.id).state is CatalogTransactionState.COMMITTED:
                self._leave()
                raise
        self._leave()
        return Result(STATUS, [("OK",)])

    def close(self) -> None:
        """Roll back the transaction that is open, if the server can be asked; else its lease ends it."""
        if self.transaction:
            with suppress(NessieOpsError):
                self.client.rollback_transaction(self.transaction.id)
            self._leave()

    def _require_transaction(self, what: str) -> CatalogTransaction:
        if self.transaction is None:
            raise BadRequest(f"{what}: no transaction is open; START TRANSACTION begins one.")
        return self.transaction

    def _leave(self) -> None:
        self.transaction, self.ref = None, self._before

    # -- history ------------------------------------------------------------------------------

    @_run.register
    def _(self, wanted: s.ShowLog) -> Result:
        """Newest first."""
        at = find(self.client, wanted.place, self.ref).hash
        metas = [row.commit_meta for row in self.client.list_log(at, limit=wanted.limit or self._limit)]
        rows = [
            (
                _first(meta.authors),
                meta.committer,
                meta.hash,
                meta.message,
                _first(meta.all_signed_off_by),
                meta.author_time,
                meta.commit_time,
                {name: ", ".join(values) for name, values in meta.all_properties.items()},
            )
            for meta in metas
        ]
        return Result(LOG, rows)

    @_run.register
    def _(self, wanted: s.ShowDiff) -> Result:
        """Keys in order; `change` is ADDED, REMOVED or CHANGED."""
        before = find(self.client, wanted.before or s.Place(self._get_base()), self.ref)
        after = find(self.client, wanted.after, self.ref)
        found = self.client.diff(before.hash, after.hash, limit=wanted.limit or self._limit)
        rows = [
            (
                str(row.key),
                "ADDED" if row.before is None else "REMOVED" if row.after is None else "CHANGED",
                row.before and str(row.before.type),
                row.after and str(row.after.type),
            )
            for row in found
        ]
        return Result(DIFF, rows)

    # -- merges and contents ------------------------------------------------------------------

    @_run.register
    def _(self, wanted: s.MergeReference) -> Result:
        source = self._find_source(wanted)
        into = wanted.into or (self.transaction.branch if self.transaction else self.client.default_branch)
        return Result(("name", "hash"), [merging.merge(self.client, source, into, wanted)])

    def _get_base(self) -> str:
        """What a difference begins at: the default branch, or what the open transaction began from."""
        open = self.transaction and self.client.get_transaction(self.transaction.id)
        return f"@{open.base_hash}" if open else self.client.default_branch

    def _find_source(self, wanted: s.MergeReference) -> Reference | Detached:
        place = wanted.source
        if place.name:
            self._get(wanted.kind, place.name)
        return find(self.client, place, self.ref)

    @_run.register(s.CreateNamespace)
    @_run.register(s.AlterNamespace)
    @_run.register(s.DropContent)
    def _(self, wanted: s.CreateNamespace | s.AlterNamespace | s.DropContent) -> Result:
        contents.change(self.client, to_spec(s.Place(wanted.on), self.ref), wanted)
        return Result(STATUS, [("OK",)])

    @_run.register
    def _(self, wanted: s.ListContents) -> Result:
        """Keys in order."""
        at = find(self.client, wanted.place, self.ref).hash
        return Result(("type", "key"), contents.list_contents(self.client, at, wanted.selection))

    @_run.register
    def _(self, wanted: s.ShowContent) -> Result:
        found = contents.get(self.client, find(self.client, wanted.place, self.ref).hash, wanted.type, wanted.key)
        return Result(("content",), [(msgspec.json.format(msgspec.json.encode(found), indent=2).decode(),)])

    @_run.register
    def _(self, wanted: s.RevertContent) -> Result:
        branch = wanted.on or self.ref
        return Result(("name", "hash"), [contents.revert(self.client, branch, wanted)])


def _first(values: tuple[str, ...]) -> str:
    return values[0] if values else ""
