"""What may be said in a merge request, and how one goes from state to state.  Pure: does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from nessie_ops.errors import BadRequest, MergeRequestNotReady
from nessie_ops.mergerequests.documents import judge
from nessie_ops.model import (
    CheckResult,
    CommitHash,
    Conflict,
    MergeRequest,
    MergeRequestState,
    MergeRequestStep,
    NewMergeRequest,
    parse_hash,
)
from nessie_ops.model.references import check_name

MAX_CHECKS = 1_000
MAX_WORDS = 4_000  # characters of a reason or summary
MAX_TITLE = 500  # also of who did something, and of a check's name
MAX_PROPERTIES_BYTES = 16 << 10
LIVE = (MergeRequestState.OPEN, MergeRequestState.CONFLICT)


def check_new(new: NewMergeRequest) -> None:
    """BadRequest names the field that breaks a rule."""
    check_name(new.source, "source")
    if new.target:
        check_name(new.target, "target")
    if new.source_hash is not None:
        parse_hash(new.source_hash, "sourceHash")
    _check_length("title", new.title, MAX_TITLE)
    _check_length("reason", new.reason, MAX_WORDS)
    check_who("author", new.author)
    _check_size(new.required_checks, new.properties)
    _check_names("requiredChecks", new.required_checks)


def _check_size(required: Sequence[str], properties: Mapping[str, Sequence[str]]) -> None:
    if len(required) > MAX_CHECKS:
        raise BadRequest(f"requiredChecks: {len(required)} checks, more than {MAX_CHECKS}.")
    if len(msgspec.json.encode(properties)) > MAX_PROPERTIES_BYTES:
        raise BadRequest(f"properties: more than {MAX_PROPERTIES_BYTES} bytes as JSON.")


def check_results(results: Sequence[CheckResult]) -> None:
    """BadRequest names what breaks a rule."""
    if not 1 <= len(results) <= MAX_CHECKS:
        raise BadRequest(f"checks: give 1 to {MAX_CHECKS} results, not {len(results)}.")
    _check_names("checks", [result.name for result in results])
    for result in results:
        _check_length(f"checks: summary of {result.name[:100]}", result.summary, MAX_WORDS)


def check_words(name: str, text: str) -> None:
    """BadRequest when a field for people is too long."""
    _check_length(name, text, MAX_WORDS)


def check_who(name: str, who: str) -> None:
    """BadRequest when the name of who does something is too long."""
    _check_length(name, who, MAX_TITLE)


def _check_names(field: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if not name or len(name) > MAX_TITLE:
            raise BadRequest(f"{field}: a check's name has 1 to {MAX_TITLE} characters.")
        if name in seen:
            raise BadRequest(f"{field}: '{name}' is named twice.")
        seen.add(name)


def _check_length(field: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise BadRequest(f"{field}: longer than {limit} characters.")


def require_live(request: MergeRequest, to_do: str) -> None:
    """MergeRequestNotReady when it is merged or closed."""
    if request.state not in LIVE:
        raise MergeRequestNotReady(f"Merge request {request.number} is {request.state}: it cannot be {to_do}.")


def require_commit(request: MergeRequest, commit: CommitHash) -> None:
    """MergeRequestNotReady when something is said of another commit than the one that is to be merged."""
    if commit != request.source_hash:
        raise MergeRequestNotReady(
            f"Merge request {request.number} is about commit {request.source_hash}, and this is about {commit}."
        )


def why_not(request: MergeRequest) -> str:
    """Why an open merge request can never be merged as it is; empty when it can, or may be able to."""
    if request.is_stale:
        return f"'{request.source}' has moved on from commit {request.source_hash}, or is gone"
    return f"checks failed: {', '.join(request.failed)}" if request.failed else ""


def add_results(request: MergeRequest, results: Sequence[CheckResult], now: datetime, by: str) -> MergeRequest:
    """With these results; a newer one of a check replaces the older."""
    found = {result.name: result for result in (*request.checks, *results)}
    if len(found) > MAX_CHECKS:
        raise BadRequest(f"checks: {len(found)} different ones would be known of the request, more than {MAX_CHECKS}.")
    failed = [result.name for result in results if not result.passed]
    what = f"checks reported: {len(results)}" + (f", failed: {', '.join(failed)[:1000]}" if failed else "")
    return _step(request, now, what, by, checks=tuple(found.values()))


def approve(request: MergeRequest, now: datetime, by: str) -> MergeRequest:
    """Approved by a person for its commit alone."""
    return _step(request, now, "approved", by, approved_by=by)


def ask_more(request: MergeRequest, new: NewMergeRequest) -> MergeRequest:
    """With what a further caller asks for: no check or approval that was required before is required no more.

    BadRequest when it becomes too much.
    """
    asked = msgspec.structs.replace(
        request,
        title=new.title or request.title,
        reason=new.reason or request.reason,
        required_checks=tuple(dict.fromkeys((*request.required_checks, *new.required_checks))),
        needs_approval=request.needs_approval or new.needs_approval,
        delete_source=request.delete_source or new.delete_source,
        properties={**request.properties, **new.properties},
    )
    _check_size(asked.required_checks, asked.properties)
    return judge(asked, _head(request))


def move(request: MergeRequest, commit: CommitHash, now: datetime, by: str) -> MergeRequest:
    """Open for `commit`: what was said of another one no longer counts, and what failed is asked for again."""
    said: dict[str, object] = {"state": MergeRequestState.OPEN, "outcome": "", "conflicts": ()}
    said["checks"] = tuple(result for result in request.checks if result.passed)
    if commit != request.source_hash:
        said |= {"source_hash": commit, "checks": (), "approved_by": ""}
    return _step(request, now, f"open at {commit}", by, attempt=request.attempt + 1, **said)


def close(request: MergeRequest, why: str, now: datetime, by: str) -> MergeRequest:
    """Closed, saying why."""
    return _step(request, now, f"closed: {why}", by, state=MergeRequestState.CLOSED, outcome=why)


def refuse(request: MergeRequest, conflicts: Sequence[Conflict], now: datetime, by: str) -> MergeRequest:
    """In conflict with the target."""
    keys = ", ".join(f"'{conflict.key}'" for conflict in conflicts)
    why = f"'{request.target}' changed {keys} as well"[:MAX_WORDS]
    state = MergeRequestState.CONFLICT
    return _step(request, now, f"in conflict: {why}", by, state=state, outcome=why, conflicts=tuple(conflicts))


def finish(
    request: MergeRequest, commit: CommitHash, now: datetime, by: str, *, is_written: bool = True
) -> MergeRequest:
    """Merged by `commit` of the target, which may have had all of it before."""
    what = f"merged as {commit}" if is_written else f"nothing to merge: '{request.target}' has all of it at {commit}"
    return _step(request, now, what, by, state=MergeRequestState.MERGED, merge_hash=commit)


def _step(request: MergeRequest, now: datetime, what: str, by: str, **values: object) -> MergeRequest:
    steps = (*request.steps, MergeRequestStep(at=now, what=what[:MAX_WORDS], by=by))
    changed = msgspec.structs.replace(request, updated_at=now, steps=steps, **values)
    return judge(changed, _head(request) if changed.source_hash == request.source_hash else changed.source_hash)


def _head(request: MergeRequest) -> CommitHash | None:
    return None if request.is_stale else request.source_hash
