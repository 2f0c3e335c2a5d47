"""BufferedVersions: a version store whose one branch is a transaction's, so that Iceberg's semantics work inside it.

What commits to the branch waits in the transaction, and what reads the branch sees it.  All else is the store's.
Metadata files are written at once; those of a transaction that is given up are left to the garbage collection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nessie_ops.buffering import BufferedTransaction
from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    Branch,
    CommitHash,
    CommitResult,
    Content,
    ContentKey,
    Detached,
    Entry,
    NewCommit,
    Operation,
    Reference,
    ReferenceSpec,
)
from nessie_ops.versioning.versionstore import VersionStore

HEAD = CommitHash("buffered")  # of the transaction's branch; no commit's name


class BufferedVersions:
    """The methods of a version store that IcebergCatalog calls."""

    def __init__(self, store: VersionStore, transaction: BufferedTransaction) -> None:
        self._store, self._transaction = store, transaction
        self._messages: list[str] = []

    @property
    def default_branch(self) -> str:
        return self._store.default_branch

    @property
    def message(self) -> str:
        """What was done, for the commit."""
        return "; ".join(self._messages)

    def resolve(self, spec: str | ReferenceSpec) -> Reference | Detached:
        """The transaction's branch as it sees it; every other reference as it is."""
        parsed = ReferenceSpec.parse(spec, self.default_branch) if isinstance(spec, str) else spec
        if parsed.name == self._transaction.on and not parsed.hash and not parsed.steps:
            return Branch(self._transaction.on, HEAD)
        return self._store.resolve(parsed)

    def get_reference(self, name: str) -> Reference:
        return Branch(name, HEAD) if name == self._transaction.on else self._store.get_reference(name)

    def get_contents(self, at: CommitHash, keys: Iterable[ContentKey]) -> Mapping[ContentKey, Content]:
        return self._transaction.get_contents(keys) if at == HEAD else self._store.get_contents(at, keys)

    def list_entries(
        self,
        at: CommitHash,
        *,
        prefix: ContentKey | None = None,
        first: ContentKey | None = None,
        last: ContentKey | None = None,
        limit: int = 10_000,
        with_content: bool = False,
    ) -> list[Entry]:
        """Entries of the transaction, or of a commit."""
        if at == HEAD:
            return self._transaction.list_entries(
                prefix=prefix, first=first, last=last, limit=limit, with_content=with_content
            )
        return self._store.list_entries(
            at, prefix=prefix, first=first, last=last, limit=limit, with_content=with_content
        )

    def commit(
        self, branch: str, expected: CommitHash, meta: NewCommit, operations: Sequence[Operation]
    ) -> CommitResult:
        """Buffer the operations; BadRequest for another branch than the transaction's."""
        if expected != HEAD:
            raise BadRequest(f"ref: the transaction is on {self._transaction.on}; it cannot write to {branch}.")
        self._transaction.apply(operations)
        self._messages.append(meta.message)
        return CommitResult(Branch(branch, HEAD))
