"""NessieClient: the version store's methods over HTTP, against a nessie-ops server.

Same names, values and errors as VersionStore, with three differences that HTTP makes.  A write whose
answer is lost raises OutcomeUnknown and is never sent again.  The committer is the server's to say: a
`NewCommit.committer` travels as author, and not at all in a transplant.  Where VersionStore takes None
for "whatever the head is", the client reads the head first, so a writer in between can make it conflict.
What is read at a hash that was found through a transaction's branch is read through that branch.

Thread-safe.  Not to be used across a fork.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

import msgspec

from nessie_ops import errors
from nessie_ops.buffering import BufferedTransaction
from nessie_ops.client.connection import PAGE
from nessie_ops.client.events import EventMethods
from nessie_ops.client.mergerequests import MergeRequestMethods
from nessie_ops.client.through import keep_name, spec_of, split_name
from nessie_ops.client.transactions import TransactionMethods
from nessie_ops.errors import MergeConflict
from nessie_ops.model import (
    CONFIG_TYPES,
    NO_ANCESTOR,
    TRANSACTIONS,
    Ancestor,
    Branch,
    CommitHash,
    CommitMeta,
    CommitResult,
    Content,
    ContentKey,
    Detached,
    DiffEntry,
    Entry,
    Isolation,
    LogEntry,
    Merge,
    MergeResult,
    NewCommit,
    Operation,
    Parent,
    Reference,
    ReferenceMove,
    ReferenceSpec,
    ReferenceType,
    RepositoryConfig,
    Tag,
    Transplant,
    wire,
)

_NO_WORDS = NewCommit(message="")
MAX_PAGE = 10_000  # rows of one listing, as in VersionStore


class NessieClient(EventMethods, MergeRequestMethods, TransactionMethods):
    """A connection pool to one server; close it, or use it as a context manager."""

    # -- references ---------------------------------------------------------------------------

    @property
    def default_branch(self) -> str:
        return self._get("config", wire.Config).default_branch

    def list_repository_configs(self, types: Iterable[str] = CONFIG_TYPES) -> list[RepositoryConfig]:
        """Those configurations of these types that were ever set."""
        wanted = set(types)
        found = self._get("config/repository", wire.RepositoryConfigs).configs if wanted else ()
        return [config for config in found if config.__struct_config__.tag in wanted]

    def update_repository_config(self, config: RepositoryConfig) -> RepositoryConfig | None:
        """Replace the configuration of its type; the one before.  BadRequest when a policy cannot be read."""
        return self._write("POST", "config/repository", wire.PreviousConfig, {"config": config}).previous

    def list_references(
        self,
        *,
        prefix: str = "",
        after: tuple[ReferenceType, str] | None = None,
        limit: int = MAX_PAGE,
        hidden: bool = False,
        filter: str = "",
    ) -> list[Reference]:
        """Branches by name, then tags by name, from after the given (type, name), for which a CEL filter is true.

        Transactions' branches only when `hidden` says so, or the prefix is theirs.
        """
        params = {"name-prefix": prefix, "filter": filter, "fetch": "ALL" if filter else ""}
        params["hidden"] = "true" if hidden else "false"
        token = wire.make_token(wire.ReferencePosition(*after)) if after else ""
        return list(self._rows("trees", params, wire.ReferencePage, lambda page: page.references, limit, token))

    def get_reference(self, name: str) -> Reference:
        """The branch or tag `name` with its head; ReferenceNotFound."""
        return keep_name(self._get(f"trees/{_quote(name)}", wire.SingleReference).reference)

    def create_reference(
        self, kind: ReferenceType, name: str, target: CommitHash, *, properties: Mapping[str, str] | None = None
    ) -> Reference:
        """A new branch or tag; BadRequest (name), ReferenceAlreadyExists, ReferenceNotFound (no such commit)."""
        body = {"type": "DETACHED", "hash": target, "newProperties": dict(properties or {})}
        params = {"name": name, "type": str(kind)}
        return self._write("POST", "trees", wire.SingleReference, body, params).reference

    def assign_reference(self, name: str, expected: CommitHash | None, target: CommitHash) -> Reference:
        """Move a branch or tag; ReferenceConflict (UNEXPECTED_HASH) unless its head is `expected`."""
        body = {"type": "DETACHED", "hash": target}
        return self._write("PUT", f"trees/{self._at(name, expected)}", wire.SingleReference, body).reference

    def delete_reference(self, name: str, expected: CommitHash | None) -> Reference:
        """Delete a reference and return it as it was; the default branch is a BadRequest."""
        return self._write("DELETE", f"trees/{self._at(name, expected)}", wire.SingleReference).reference

    def update_properties(
        self, name: str, updates: Mapping[str, str], removals: Iterable[str] = (), *, expected: CommitHash | None = None
    ) -> Reference:
        """Set and remove properties of a reference.  `quarantined` set to a reason forbids merging it."""
        path = f"trees/{_quote(f'{name}@{expected}' if expected else name)}/properties"
        body = {"updates": dict(updates), "removals": list(removals)}
        return self._write("PUT", path, wire.SingleReference, body).reference

    def list_moves(
        self, *, name: str | None = None, after_seq: int = 0, limit: int = MAX_PAGE, newest_first: bool = False
    ) -> list[ReferenceMove]:
        """The reference log: every creation, move, property change and deletion, by sequence number."""
        params = {"name": name or "", "after": str(after_seq), "newest-first": str(newest_first).lower()}
        return list(self._rows("reference-log", params, wire.MovePage, lambda page: page.moves, limit))

    # -- reading ------------------------------------------------------------------------------

    def resolve(self, spec: str | ReferenceSpec) -> Reference | Detached:
        """The reference with the commit that `spec` names as its hash; ReferenceNotFound, BadRequest."""
        text = spec if isinstance(spec, str) else _to_text(spec)
        if text.startswith(TRANSACTIONS):  # a listing would be recorded as read, and a log is not
            rows = self._get(f"trees/{_quote(text)}/history", wire.LogPage, {"max-records": "1"}).log_entries
            return keep_name(Branch(split_name(text), rows[0].commit_meta.hash if rows else NO_ANCESTOR))
        page = self._get(f"trees/{_quote(text)}/entries", wire.EntryPage, {"max-records": "1"})
        return page.effective_reference

    def get_commit(self, commit: CommitHash) -> CommitMeta:
        """Who made a commit, when and why; ReferenceNotFound."""
        entries = self.list_log(commit, limit=1)
        if not entries:
            raise errors.ReferenceNotFound(f"Commit '{commit}' not found")
        return entries[0].commit_meta

    def get_contents(self, at: CommitHash, keys: Iterable[ContentKey]) -> dict[ContentKey, Content]:
        """Contents of those of `keys` that exist at commit `at`, in the order of `keys`."""
        wanted = list(dict.fromkeys(keys))
        found: dict[ContentKey, Content] = {}
        for start in range(0, len(wanted), PAGE):
            body = {"requestedKeys": wanted[start : start + PAGE]}
            answer = self._call("POST", f"trees/{_quote(spec_of(at))}/contents", wire.Contents, body=body)
            found.update((row.key, row.content) for row in answer.contents)
        return {key: found[key] for key in wanted if key in found}

    def list_entries(
        self,
        at: CommitHash,
        *,
        prefix: ContentKey | None = None,
        first: ContentKey | None = None,
        last: ContentKey | None = None,
        limit: int = MAX_PAGE,
        with_content: bool = False,
        filter: str = "",
    ) -> list[Entry]:
        """Entries at commit `at` in key order: `prefix` and all below it, or `first` to `last` inclusive."""
        params = _range_params(prefix, first, last) | {"content": str(with_content).lower(), "filter": filter}
        path = f"trees/{_quote(spec_of(at))}/entries"
        return list(self._rows(path, params, wire.EntryPage, lambda page: page.entries, limit))

    def list_log(
        self,
        at: CommitHash,
        *,
        limit_hash: CommitHash | None = None,
        limit: int = 250,
        with_operations: bool = False,
        filter: str = "",
    ) -> list[LogEntry]:
        """Commits from `at` backwards along direct parents; `limit_hash` is the last one looked at."""
        params = {"fetch": "ALL" if with_operations else "MINIMAL", "filter": filter}
        if limit_hash:
            params["limit-hash"] = limit_hash
        return list(self._rows(f"trees/@{at}/history", params, wire.LogPage, lambda page: page.log_entries, limit))

    def diff(
        self,
        before: CommitHash,
        after: CommitHash,
        *,
        prefix: ContentKey | None = None,
        first: ContentKey | None = None,
        last: ContentKey | None = None,
        limit: int = MAX_PAGE,
        filter: str = "",
    ) -> list[DiffEntry]:
        """Keys whose value differs between two commits, in key order."""
        path = f"trees/{_quote(spec_of(before))}/diff/{_quote(spec_of(after))}"
        params = _range_params(prefix, first, last) | {"filter": filter}
        return list(self._rows(path, params, wire.DiffPage, lambda page: page.diffs, limit))

    def get_table_metadata(self, at: CommitHash, key: ContentKey) -> bytes:
        """The Iceberg metadata (JSON) of the table `key` at a commit; BadRequest when it is no table there."""
        namespace, name = _quote("\x1f".join(key.elements[:-1])), _quote(key.name)
        root = f"iceberg/v1/{_quote(spec_of(at))}"
        return bytes(self._get(f"namespaces/{namespace}/tables/{name}", wire.LoadedTable, root=root).metadata)

    # -- writing ------------------------------------------------------------------------------

    def commit(
        self, branch: str, expected: CommitHash, meta: NewCommit, operations: Sequence[Operation]
    ) -> CommitResult:
        """One atomic commit on top of the head of `branch`; see VersionStore.commit."""
        body = {"commitMeta": _to_meta(meta), "operations": list(operations)}
        return self._write("POST", f"trees/{_quote(f'{branch}@{expected}')}/history/commit", CommitResult, body)

    def transaction(
        self,
        on: str = "",
        *,
        isolation: Isolation = Isolation.SERIALIZABLE,
        message: str = "",
        author: str = "",
    ) -> BufferedTransaction:
        """A transaction on a branch, the default one unless named, that becomes one commit at its block's end:

            with catalog.transaction(on="main") as tx:
                tx.put(target, change(tx.get(source)))

        What the levels see and check is told in `nessie_ops.buffering.transaction`.  ReferenceNotFound, BadRequest.
        """
        meta = NewCommit(message=message, authors=(author,) if author else ())
        return BufferedTransaction(self, on or self.default_branch, isolation, meta)

    def merge(self, branch: str, expected: CommitHash | None, request: Merge) -> MergeResult:
        """Merge a commit into `branch`; MergeConflict, with the result, unless `request` wants it as result."""
        body = _to_body(request) | {"fromHash": request.from_hash, "isOnlyHead": request.only_head}
        return self._apply("merge", branch, expected, body, request.conflicts_as_result)

    def transplant(self, branch: str, expected: CommitHash | None, request: Transplant) -> MergeResult:
        """Apply the changes of commits to `branch`; see VersionStore.transplant."""
        meta = msgspec.structs.replace(request.meta, committer="")  # authors are those of the commits
        body = _to_body(request) | {"hashesToTransplant": request.hashes, "commitMeta": _to_meta(meta)}
        return self._apply("transplant", branch, expected, body, request.conflicts_as_result)

    def revert(
        self,
        branch: str,
        expected: CommitHash | None,
        commit: CommitHash,
        *,
        meta: NewCommit = _NO_WORDS,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
    ) -> MergeResult:
        """Undo a commit by a new one; see VersionStore.revert."""
        body = {"commitHash": commit, "commitMeta": _to_meta(meta), "isDryRun": dry_run}
        return self._apply("revert", branch, expected, body, conflicts_as_result)

    def revert_contents(
        self,
        branch: str,
        expected: CommitHash | None,
        keys: Iterable[ContentKey],
        at: CommitHash,
        *,
        allow_deletes: bool = False,
        meta: NewCommit = _NO_WORDS,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
    ) -> MergeResult:
        """Give `keys` the values that they have at commit `at`; see VersionStore.revert_contents."""
        body = {"keys": list(keys), "sourceRef": f"@{at}", "allowDeletes": allow_deletes}
        body |= {"commitMeta": _to_meta(meta), "isDryRun": dry_run}
        return self._apply("revert", branch, expected, body, conflicts_as_result)

    def _apply(
        self, action: str, branch: str, expected: CommitHash | None, body: dict[str, object], as_result: bool
    ) -> MergeResult:
        """Ask for conflicts as result, so that MergeConflict has it."""
        path = f"trees/{self._at(branch, expected)}/history/{action}"
        result = self._write("POST", path, MergeResult, body | {"isReturnConflictAsResult": True})
        if not result.was_successful and not as_result:
            conflicts = tuple(row.conflict for row in result.details if row.conflict)
            keys = ", ".join(f"'{conflict.key}'" for conflict in conflicts)
            raise MergeConflict(f"The following keys have been changed in conflict: {keys}", result, conflicts)
        return result

    def _at(self, name: str, expected: CommitHash | None) -> str:
        return _quote(f"{name}@{expected or self.get_reference(name).hash}")


def _quote(text: str) -> str:
    return quote(text, safe="")


def _kind(reference: Reference) -> ReferenceType:
    return ReferenceType.TAG if isinstance(reference, Tag) else ReferenceType.BRANCH


def _to_text(spec: ReferenceSpec) -> str:
    text = f"{spec.name or ''}@{spec.hash}" if spec.hash else spec.name or ""
    for step in spec.steps:
        if isinstance(step, Ancestor):
            text += f"~{step.n}"
        elif isinstance(step, Parent):
            text += f"^{step.n}"
        else:
            text += f"*{step.time.isoformat()}"
    return text


def _to_meta(meta: NewCommit) -> dict[str, object]:
    authors = meta.authors or ((meta.committer,) if meta.committer else ())
    return {
        "message": meta.message,
        "authors": authors,
        "allSignedOffBy": meta.signed_off_by,
        "authorTime": meta.author_time,
        "allProperties": meta.properties,
    }


def _to_body(request: Merge | Transplant) -> dict[str, object]:
    return {
        "fromRefName": request.from_ref,
        "commitMeta": _to_meta(request.meta),
        "keyMergeModes": request.key_modes,
        "defaultKeyMergeMode": request.default_behavior,
        "isDryRun": request.dry_run,
    }


def _range_params(prefix: ContentKey | None, first: ContentKey | None, last: ContentKey | None) -> dict[str, str]:
    keys = {"prefix-key": prefix, "min-key": first, "max-key": last}
    return {name: key.to_path() for name, key in keys.items() if key}
