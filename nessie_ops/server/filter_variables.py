"""The variables of CEL filters, listing by listing, with the names and types that Nessie's clients know.

Times are CEL timestamps, absent values are null, and content keys have their dots inside elements
written as U+001D in `encodedKey` and `namespace`, as in the older of the two forms in URLs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from nessie_ops.model import (
    NO_ANCESTOR,
    Branch,
    CommitMeta,
    ContentId,
    ContentKey,
    ContentType,
    Delete,
    DiffEntry,
    Entry,
    IcebergTable,
    LogEntry,
    PutLog,
    Reference,
    Tag,
)
from nessie_ops.model.wire import ReferenceMetadata
from nessie_ops.server.filters import Variables


class ListedReference(Protocol):
    """A reference in a listing; its metadata is None when nobody asked for it, or it has no commits."""

    @property
    def reference(self) -> Reference: ...
    @property
    def metadata(self) -> ReferenceMetadata | None: ...


class _Example(msgspec.Struct, frozen=True):
    reference: Reference
    metadata: ReferenceMetadata | None


def _commit(meta: CommitMeta | None) -> dict[str, Any]:
    authors, signers = (meta.authors, meta.all_signed_off_by) if meta else ((), ())
    properties = meta.all_properties if meta else {}
    return {
        "hash": meta.hash if meta else None,
        "message": meta.message if meta else "",
        "author": _first(authors),
        "authors": list(authors),
        "committer": meta.committer if meta else "",
        "signedOffBy": _first(signers),
        "allSignedOffBy": list(signers),
        "commitTime": meta.commit_time if meta else None,
        "authorTime": meta.author_time if meta else None,
        "properties": {name: _first(values) for name, values in properties.items()},
        "allProperties": {name: list(values) for name, values in properties.items()},
        "parentCommitHashes": list(meta.parent_commit_hashes) if meta else [],
    }


def _first(values: Sequence[str]) -> str:
    return values[0] if values else ""


def _key(key: ContentKey) -> dict[str, Any]:
    *parents, name = key.elements
    return {
        "key": ".".join(key.elements),
        "keyElements": list(key.elements),
        "encodedKey": _encode(key.elements),
        "namespace": _encode(parents),
        "namespaceElements": parents,
        "name": name,
    }


def _encode(elements: Sequence[str]) -> str:
    return ".".join(element.replace(".", "\x1d") for element in elements)


def _operation(operation: PutLog | Delete) -> dict[str, Any]:
    if isinstance(operation, Delete):
        return {"type": "DELETE", **_key(operation.key), "content": None}
    content = operation.content
    return {"type": "PUT", **_key(operation.key), "content": {"type": str(content.type), "id": str(content.id)}}


def _metadata(metadata: ReferenceMetadata | None) -> dict[str, Any]:
    return {
        "numCommitsAhead": metadata and metadata.num_commits_ahead,
        "numCommitsBehind": metadata and metadata.num_commits_behind,
        "commitMetaOfHEAD": _commit(metadata.commit_meta_of_head if metadata else None),
        "commonAncestorHash": metadata and metadata.common_ancestor_hash,
        "numTotalCommits": metadata and metadata.num_total_commits,
    }


def _reference(row: ListedReference) -> dict[str, Any]:
    return {"name": row.reference.name, "hash": row.reference.hash, "metadata": _metadata(row.metadata)}


_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_COMMIT = CommitMeta(
    hash=NO_ANCESTOR,
    committer="ann",
    authors=("ann",),
    all_signed_off_by=("ann",),
    message="a commit",
    commit_time=_TIME,
    author_time=_TIME,
    all_properties={"key": ("value",)},
    parent_commit_hashes=(NO_ANCESTOR,),
)
_TABLE = IcebergTable(
    id="00000000-0000-4000-8000-000000000000",
    metadata_location="file:///t",
    snapshot_id=1,
    schema_id=0,
    spec_id=0,
    sort_order_id=0,
)
_NAME = ContentKey(("db", "t"))

REFERENCES: Variables[ListedReference] = Variables(
    {
        "ref": _reference,
        "refType": lambda row: "TAG" if isinstance(row.reference, Tag) else "BRANCH",
        "refMeta": lambda row: _metadata(row.metadata),
        "commit": lambda row: _commit(row.metadata.commit_meta_of_head if row.metadata else None),
    },
    _Example(
        Branch("main", NO_ANCESTOR),
        ReferenceMetadata(
            num_commits_ahead=1,
            num_commits_behind=1,
            commit_meta_of_head=_COMMIT,
            common_ancestor_hash=NO_ANCESTOR,
            num_total_commits=1,
        ),
    ),
)
LOG: Variables[LogEntry] = Variables(
    {
        "commit": lambda row: _commit(row.commit_meta),
        "operations": lambda row: [_operation(operation) for operation in row.operations or ()],
    },
    LogEntry(_COMMIT, NO_ANCESTOR, (PutLog(_NAME, _TABLE),)),
)
ENTRIES: Variables[Entry] = Variables(
    {"entry": lambda row: {**_key(row.name), "contentType": str(row.type)}},
    Entry(ContentType.ICEBERG_TABLE, _NAME, ContentId(str(_TABLE.id))),
)
DIFFS: Variables[DiffEntry] = Variables({"key": lambda row: _key(row.key)}, DiffEntry(_NAME, None, _TABLE))
