"""Merge requests as rows: what the database looks for has columns, all else is JSON."""

from __future__ import annotations

import msgspec

from nessie_ops.model import CheckResult, CommitHash, Conflict, MergeRequest, MergeRequestState, MergeRequestStep
from nessie_ops.store import MergeRequestRecord
from nessie_ops.versioning.codec import from_micros, to_micros

MAX_STEPS = 100  # of the newest


class _Document(msgspec.Struct, frozen=True, omit_defaults=True):
    title: str = ""
    reason: str = ""
    author: str = ""
    required_checks: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    needs_approval: bool = False
    approved_by: str = ""
    delete_source: bool = False
    attempt: int = 1
    outcome: str = ""
    conflicts: tuple[Conflict, ...] = ()
    merge_hash: CommitHash | None = None
    steps: tuple[MergeRequestStep, ...] = ()
    properties: dict[str, tuple[str, ...]] = {}


_FIELDS = _Document.__struct_fields__
_decoder = msgspec.json.Decoder(_Document)


def to_record(request: MergeRequest) -> MergeRequestRecord:
    """The row of a merge request."""
    document = _Document(**{name: getattr(request, name) for name in _FIELDS} | {"steps": request.steps[-MAX_STEPS:]})
    return MergeRequestRecord(
        request.number,
        request.source,
        request.source_hash,
        request.target,
        request.state,
        to_micros(request.created_at),
        to_micros(request.updated_at),
        msgspec.json.encode(document).decode(),
    )


def from_record(record: MergeRequestRecord, head: CommitHash | None) -> MergeRequest:
    """The merge request of a row, seen while its source ends at `head` (None: it is gone)."""
    document = _decoder.decode(record.document)
    values = {name: getattr(document, name) for name in _FIELDS}
    return judge(
        MergeRequest(
            number=record.number,
            source=record.source,
            source_hash=CommitHash(record.source_hash),
            target=record.target,
            state=MergeRequestState(record.state),
            created_at=from_micros(record.created_at),
            updated_at=from_micros(record.updated_at),
            **values,
        ),
        head,
    )


def judge(request: MergeRequest, head: CommitHash | None) -> MergeRequest:
    """`request` with what follows from its results and from where its source ends."""
    found = {result.name: result.passed for result in request.checks}
    waits_for = [name for name in request.required_checks if name not in found]
    if request.needs_approval and not request.approved_by:
        waits_for.append("approval")
    is_done = request.state is MergeRequestState.MERGED
    return msgspec.structs.replace(
        request,
        waits_for=() if is_done else tuple(waits_for),
        failed=tuple(name for name in request.required_checks if found.get(name) is False),
        is_stale=not is_done and head != request.source_hash,
    )
