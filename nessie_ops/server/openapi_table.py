"""What the OpenAPI document says of each operation, parameter and header of the Nessie API."""

from __future__ import annotations

from typing import Any, NamedTuple

from nessie_ops.model import (
    CatalogTransaction,
    CatalogTransactionState,
    CommitResult,
    Content,
    CreatedSubscriber,
    Delivered,
    MergeRequest,
    MergeRequestState,
    MergeResult,
    Namespace,
    NewCatalogTransaction,
    NewMergeRequest,
    NewSubscriber,
    Subscriber,
    TidiedTransactions,
)
from nessie_ops.model import wire as v2
from nessie_ops.server.merge_requests import ApprovalIn, ChecksIn, ClosingIn, WhoIn
from nessie_ops.server.repository import ConfigIn
from nessie_ops.server.requests import CommitIn, KeysIn, MergeIn, PropertiesIn, ReferenceIn, TransplantIn
from nessie_ops.server.reverts import RevertIn
from nessie_ops.server.transactions import CommitTransactionIn, LeaseIn
from nessie_ops.server.v1 import wire as v1
from nessie_ops.server.v1.commits import MergeV1In, TransplantV1In
from nessie_ops.server.v1.namespaces import NamespaceIn, NamespaceUpdate
from nessie_ops.server.v1.references import NewReference


class Operation(NamedTuple):
    """The structs of answer (None: 204) and body, and query parameters: with "[]" lists, with "!" required."""

    answer: Any
    query: tuple[str, ...] = ()
    body: Any = None
    needs_body: bool = True
    takes_headers: bool = False


_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "format": "int64"}
_KEY = {"type": "string", "description": "A content key: `a.b`, or `.a*.b.c` when an element needs escapes."}
_FILTER = {"type": "string", "maxLength": 2000, "description": "A CEL expression that is true for the rows wanted."}
_FETCH = {"type": "string", "enum": ["MINIMAL", "ALL"], "default": "MINIMAL"}
_TYPE = {"type": "string", "enum": ["BRANCH", "branch", "TAG", "tag"]}
_HASH = {"type": "string", "description": "A commit hash, or relative parts (~n, ^n, *time), or both."}
_TOKEN = {"type": "string", "description": "The `token` of the page before."}

PATH = {
    "ref": {"type": "string", "description": "v2: `[name|-][@[hash]]` and relative parts; v1: a name."},
    "to_ref": _TEXT,
    "key": _KEY,
    "name": _KEY,
    "subscriber": _TEXT,
    "seq": _COUNT,
    "number": _COUNT,
    "id": _TEXT,
    "refs": {"type": "string", "description": "`from[*hash]...to[*hash]`"},
}
QUERY = {
    **dict.fromkeys(("max-records", "maxRecords", "scan-commits", "namespaceDepth", "after", "wait"), _COUNT),
    **dict.fromkeys(("page-token", "pageToken"), _TOKEN),
    **dict.fromkeys(("content", "with-doc", "for-write", "newest-first", "hidden"), _FLAG),
    **dict.fromkeys(("min-key", "max-key", "prefix-key"), _KEY),
    **dict.fromkeys(("limit-hash", "startHash", "endHash", "hashOnRef", "expectedHash"), _HASH),
    **dict.fromkeys(("name", "name-prefix", "sourceRefName", "ref", "message"), _TEXT),
    "key[]": {"type": "array", "items": _KEY},
    "type[]": {"type": "array", "items": {"type": "string"}},
    "filter": _FILTER,
    "fetch": _FETCH,
    "state:transaction": {"type": "string", "enum": list(CatalogTransactionState)},
    "state:merge-request": {"type": "string", "enum": list(MergeRequestState)},
    **dict.fromkeys(("source", "target"), _TEXT),
    "type": _TYPE,
}
HEADERS = (
    *("Nessie-Client-Spec", "Nessie-Commit-Message", "Nessie-Commit-Authors"),
    *("Nessie-Commit-SignedOffBy", "Nessie-Commit-Property-source"),
)

_PAGE_1, _PAGE_2 = ("maxRecords", "pageToken"), ("max-records", "page-token")
_RANGE = ("key[]", "min-key", "max-key", "prefix-key")
_AFTER = ("after", "max-records")
_FLAGS = ("with-doc", "for-write")
_SINCE, _AT = ("expectedHash!",), ("hashOnRef",)

_V2 = {
    "GET config": Operation(v2.Config),
    "GET config/repository": Operation(v2.RepositoryConfigs, ("type[]",)),
    "POST config/repository": Operation(v2.PreviousConfig, (), ConfigIn),
    "GET trees": Operation(v2.ReferencePage, ("fetch", "filter", "hidden", "name-prefix", *_PAGE_2)),
    "POST trees": Operation(v2.SingleReference, ("name!", "type!"), ReferenceIn),
    "GET trees/{ref}": Operation(v2.SingleReference, ("fetch",)),
    "PUT trees/{ref}": Operation(v2.SingleReference, ("type",), ReferenceIn),
    "DELETE trees/{ref}": Operation(v2.SingleReference, ("type",)),
    "PUT trees/{ref}/properties": Operation(v2.SingleReference, (), PropertiesIn),
    "GET trees/{ref}/recent-changes": Operation(v2.RecentChanges, ("scan-commits",)),
    "GET reference-log": Operation(v2.MovePage, (*_AFTER, "name", "newest-first", "wait", "page-token")),
    "GET trees/{ref}/history": Operation(v2.LogPage, ("fetch", "limit-hash", "filter", *_PAGE_2)),
    "POST trees/{ref}/history/commit": Operation(CommitResult, (), CommitIn, takes_headers=True),
    "POST trees/{ref}/history/merge": Operation(MergeResult, (), MergeIn, takes_headers=True),
    "POST trees/{ref}/history/transplant": Operation(MergeResult, (), TransplantIn, takes_headers=True),
    "POST trees/{ref}/history/revert": Operation(MergeResult, (), RevertIn, takes_headers=True),
    "GET trees/{ref}/entries": Operation(v2.EntryPage, ("filter", "content", *_RANGE, *_PAGE_2)),
    "GET trees/{ref}/contents/{key}": Operation(v2.SingleContent, _FLAGS),
    "GET trees/{ref}/contents": Operation(v2.Contents, ("key[]!", *_FLAGS)),
    "POST trees/{ref}/contents": Operation(v2.Contents, _FLAGS, KeysIn),
    "GET trees/{ref}/diff/{to_ref}": Operation(v2.DiffPage, ("filter", *_RANGE, *_PAGE_2)),
}
_EVENTS = {
    "GET events": Operation(v2.EventPage, (*_AFTER, "name", "wait")),
    "GET events/subscribers": Operation(v2.Subscribers),
    "POST events/subscribers": Operation(CreatedSubscriber, (), NewSubscriber),
    "GET events/subscribers/{subscriber}": Operation(Subscriber),
    "DELETE events/subscribers/{subscriber}": Operation(Subscriber),
    "POST events/subscribers/{subscriber}/pause": Operation(Subscriber),
    "POST events/subscribers/{subscriber}/resume": Operation(Subscriber),
    "POST events/subscribers/{subscriber}/test": Operation(Delivered),
    "GET events/subscribers/{subscriber}/dead-letters": Operation(v2.DeadLetterPage, _AFTER),
    "DELETE events/subscribers/{subscriber}/dead-letters": Operation(v2.Count),
    "POST events/subscribers/{subscriber}/dead-letters/retry": Operation(v2.Count),
    "DELETE events/subscribers/{subscriber}/dead-letters/{seq}": Operation(v2.Count),
    "POST events/subscribers/{subscriber}/dead-letters/{seq}/retry": Operation(v2.Count),
}
_MERGE_REQUESTS = {
    "GET transactions": Operation(v2.TransactionPage, ("state:transaction", *_PAGE_2)),
    "POST transactions": Operation(CatalogTransaction, (), NewCatalogTransaction, needs_body=False),
    "POST transactions/tidy": Operation(TidiedTransactions),
    "GET transactions/{id}": Operation(CatalogTransaction),
    "POST transactions/{id}/commit": Operation(CatalogTransaction, (), CommitTransactionIn, needs_body=False),
    "POST transactions/{id}/rollback": Operation(CatalogTransaction),
    "POST transactions/{id}/renew": Operation(CatalogTransaction, (), LeaseIn, needs_body=False),
    "GET merge-requests": Operation(v2.MergeRequestPage, ("state:merge-request", "source", "target", *_PAGE_2)),
    "POST merge-requests": Operation(MergeRequest, (), NewMergeRequest),
    "GET merge-requests/{number}": Operation(MergeRequest),
    "POST merge-requests/{number}/checks": Operation(MergeRequest, (), ChecksIn),
    "POST merge-requests/{number}/approve": Operation(MergeRequest, (), ApprovalIn),
    "POST merge-requests/{number}/merge": Operation(MergeRequest, (), WhoIn, needs_body=False),
    "POST merge-requests/{number}/retry": Operation(MergeRequest, (), WhoIn, needs_body=False),
    "POST merge-requests/{number}/close": Operation(MergeRequest, (), ClosingIn),
}
_V1 = {
    "GET config": Operation(v1.ConfigV1),
    "GET trees": Operation(v1.ReferencePageV1, ("fetch", "filter", *_PAGE_1)),
    "GET trees/tree": Operation(v1.BranchV1),
    "POST trees/tree": Operation(v1.BranchV1 | v1.TagV1, ("sourceRefName",), NewReference),
    "GET trees/tree/{ref}": Operation(v1.BranchV1 | v1.TagV1, ("fetch",)),
    "PUT trees/branch/{ref}": Operation(None, _SINCE, ReferenceIn),
    "PUT trees/tag/{ref}": Operation(None, _SINCE, ReferenceIn),
    "DELETE trees/branch/{ref}": Operation(None, _SINCE),
    "DELETE trees/tag/{ref}": Operation(None, _SINCE),
    "GET trees/tree/{ref}/log": Operation(v1.LogPageV1, ("startHash", "endHash", *_AT, "filter", "fetch", *_PAGE_1)),
    "GET trees/tree/{ref}/entries": Operation(v1.EntryPageV1, (*_AT, "namespaceDepth", "filter", *_PAGE_1)),
    "POST trees/branch/{ref}/commit": Operation(v1.BranchV1, _SINCE, CommitIn),
    "POST trees/branch/{ref}/merge": Operation(v1.Merged, _SINCE, MergeV1In),
    "POST trees/branch/{ref}/transplant": Operation(v1.Merged, (*_SINCE, "message"), TransplantV1In),
    "GET contents/{key}": Operation(Content, ("ref", *_AT)),
    "POST contents": Operation(v1.ContentsV1, ("ref", *_AT), KeysIn),
    "GET diffs/{refs}": Operation(v1.Diffs),
    "GET namespaces/{ref}": Operation(v1.Namespaces, ("name", *_AT)),
    "GET namespaces/namespace/{ref}/{name}": Operation(Namespace, _AT),
    "PUT namespaces/namespace/{ref}/{name}": Operation(Namespace, _AT, NamespaceIn, needs_body=False),
    "POST namespaces/namespace/{ref}/{name}": Operation(None, _AT, NamespaceUpdate),
    "DELETE namespaces/namespace/{ref}/{name}": Operation(None, _AT),
}
OPERATIONS = {
    f"{method} /api/{version}/{path}": operation
    for version, table in (("v1", _V1), ("v2", _V2 | _EVENTS | _MERGE_REQUESTS))
    for name, operation in table.items()
    for method, path in [name.split(" ")]
}
