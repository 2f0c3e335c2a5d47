"""The life of a branch on which a proposed change is tried: opened or renewed, asked to be merged, merged, dropped.

The catalog is the truth: the branch's properties and its merge request say all that a repeated call must know, so
each function may be called again after a crash at any point.  A branch is merged only through its request, which
needs every required check at exactly its head and the approval that `merge_branch` gives; a sensor that follows
requests therefore never merges one by itself.  Knows neither Dagster nor Spark; touches no branch that it did not open.

    owner       nessie-ops: the platform opened it, and may delete it after expires_at
    expires_at  until when it is kept, ISO 8601 in UTC
    base_hash   the commit of its target that it was opened from
    target      the branch that it is to be merged into
    months      those that were loaded on it, all of which its checks must vouch for
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from assets.run_branches import BASE, Clock, ensure_namespaces, find_branch, utc_now
from nessie_ops.client import NessieClient
from nessie_ops.errors import (
    BadRequest,
    Forbidden,
    MergeConflict,
    MergeRequestNotReady,
    OutcomeUnknown,
    ReferenceAlreadyExists,
    ReferenceConflict,
)
from nessie_ops.mergerequests.leases import EXPIRES_AT, OWNED, OWNER, parse_time
from nessie_ops.model import (
    QUARANTINED,
    CheckResult,
    CommitHash,
    Merge,
    MergeRequest,
    MergeRequestState,
    NewCommit,
    NewMergeRequest,
    Reference,
    ReferenceType,
)

PREFIX = "ci/"
TARGET, MONTHS = "target", "months"
_LIVE = (MergeRequestState.OPEN, MergeRequestState.CONFLICT)


class CiBranch(msgspec.Struct, frozen=True, rename="camel"):
    """A branch as it is now; `is_new`: this call opened it."""

    name: str
    head: CommitHash
    base: CommitHash
    target: str
    expires_at: str
    is_new: bool = False
    quarantined: str = ""
    months: tuple[str, ...] = ()

    def has_expired(self, now: datetime) -> bool | None:
        """Whether its lease is over, so that it may be deleted at any time; None when it says no time."""
        until = parse_time(self.expires_at)
        return None if until is None else until <= now


class Merged(msgspec.Struct, frozen=True, rename="camel"):
    """What became of a merge: `commit` is the target's, None when nothing was merged, and then `reason` says why."""

    branch: str
    number: int | None
    commit: CommitHash | None
    already: bool
    reason: str


def full_name(name: str) -> str:
    """The branch of a change, by the name that people give it, such as pr-123."""
    if not name.strip():
        raise BadRequest("name: give the change a name, such as pr-123.")
    return f"{PREFIX}{name.removeprefix(PREFIX)}"


def is_ours(branch: Reference) -> bool:
    """Whether the platform opened the branch for runs that are launched on it."""
    return branch.properties.get(OWNER) == OWNED


def open_branch(
    client: NessieClient,
    target: str,
    name: str,
    lease: timedelta,
    namespaces: Iterable[str],
    *,
    months: Iterable[str] = (),
    recreate: bool = False,
    clock: Clock = utc_now,
) -> CiBranch:
    """The branch `name`: new at the head of `target`, or as it is with its lease renewed and no quarantine.

    `months` are added to those that its checks must vouch for.  `recreate` begins anew at the head of `target` and
    drops what the branch holds.  BadRequest for a branch of someone else, or of another target.
    """
    found = find_branch(client, name)
    if found is not None:
        _check_ours(found)
        if not recreate:
            _check_target(found, target)
    head = ensure_namespaces(client, target, namespaces)
    expires_at = (clock() + lease).isoformat(timespec="seconds")
    if found is not None and recreate:
        client.delete_reference(name, found.hash)
        found = None
    if found is None:
        properties = {OWNER: OWNED, EXPIRES_AT: expires_at, BASE: head, TARGET: target, MONTHS: _join(months)}
        try:
            return _describe(client.create_reference(ReferenceType.BRANCH, name, head, properties=properties), True)
        except (ReferenceAlreadyExists, OutcomeUnknown):
            found = client.get_reference(name)
            _check_ours(found)
    removed = [QUARANTINED] if QUARANTINED in found.properties else []
    known = _describe(found).months
    return _describe(
        client.update_properties(name, {EXPIRES_AT: expires_at, MONTHS: _join([*known, *months])}, removed)
    )


def list_branches(client: NessieClient) -> list[CiBranch]:
    """All of them, by name."""
    return [_describe(branch) for branch in client.list_references(prefix=PREFIX) if is_ours(branch)]


def close_requests(client: NessieClient, source: str, reason: str, by: str = "") -> list[int]:
    """Close what asks for the branch to be merged; the numbers."""
    closed = []
    for request in client.list_merge_requests(source=source):
        if request.state in _LIVE:
            with suppress(MergeRequestNotReady):  # it was merged meanwhile
                client.close_merge_request(request.number, reason, by=by)
                closed.append(request.number)
    return closed


def ask_to_merge(
    client: NessieClient,
    branch: CiBranch,
    meta: NewCommit,
    results: Sequence[CheckResult],
    required: Iterable[str],
    *,
    author: str = "",
) -> MergeRequest:
    """The request to merge what was checked at the branch's head; a new one when that has moved on meanwhile."""
    request = client.create_merge_request(
        NewMergeRequest(
            source=branch.name,
            source_hash=branch.head,
            target=branch.target,
            title=meta.message,
            author=author,
            required_checks=tuple(required),
            needs_approval=True,
            properties=dict(meta.properties),
        )
    )
    if request.state is MergeRequestState.MERGED or not results:
        return request
    return client.report_checks(request.number, branch.head, results, by=author)


def merge_branch(client: NessieClient, name: str, *, by: str, dry_run: bool = False) -> Merged:
    """Merge the branch as one commit, once, if all its required checks passed at exactly its head.

    With `dry_run` nothing is changed, and `reason` is empty when it would be merged.  BadRequest when there is
    neither such a branch nor a request of one.
    """
    branch = find_branch(client, name)
    target = branch.properties.get(TARGET, "") if branch else ""  # somebody else may ask for it elsewhere
    request = next(iter(client.list_merge_requests(source=name, target=target, limit=1)), None)
    if request is None:
        if branch is None:
            raise BadRequest(f"name: there is no branch '{name}', and none was ever merged; run `nessie-ops ci up`.")
        return Merged(name, None, None, False, f"'{name}' has not been checked; run `nessie-ops ci up`")
    is_at = branch is None or branch.hash == request.source_hash
    if request.state is MergeRequestState.MERGED and is_at:
        return Merged(name, request.number, request.merge_hash, True, "")
    if reason := _why_not(request, branch):
        return Merged(name, request.number, None, False, reason)
    if dry_run:
        return Merged(name, request.number, None, False, _try(client, request))
    with suppress(MergeRequestNotReady):  # merged or closed by another since: the answer to the merge says so
        client.approve_merge_request(request.number, request.source_hash, by=by)
    try:
        done = _merge(client, request.number, by)
    except MergeRequestNotReady as error:
        return Merged(name, request.number, None, False, error.message)
    return Merged(name, done.number, done.merge_hash, False, "" if done.merge_hash else done.outcome)


def drop_branch(client: NessieClient, name: str, *, by: str = "", dry_run: bool = False) -> CommitHash | None:
    """Delete the branch and close the requests to merge it; its head, None when it is gone already."""
    branch = find_branch(client, name)
    if branch is not None:
        _check_ours(branch)
    if not dry_run:
        close_requests(client, name, f"'{name}' was dropped", by)
        if branch is not None:
            client.delete_reference(name, branch.hash)
    return branch.hash if branch else None


def _merge(client: NessieClient, number: int, by: str) -> MergeRequest:
    try:
        return client.merge_merge_request(number, by=by)
    except OutcomeUnknown:  # asked again, it is the same merge
        return client.merge_merge_request(number, by=by)


def _why_not(request: MergeRequest, branch: Reference | None) -> str:
    """Why a request is not even tried; what the branch and its target allow, the merge itself finds out."""
    if branch is None:
        return f"'{request.source}' is gone"
    if request.is_stale or branch.hash != request.source_hash:
        return f"'{branch.name}' is at {branch.hash}, and its checks were at {request.source_hash}"
    if QUARANTINED in branch.properties:
        return f"'{branch.name}' is quarantined: {branch.properties[QUARANTINED]}"
    if request.failed:
        return f"checks failed: {', '.join(request.failed)}"
    missing = [name for name in request.waits_for if name != "approval"]
    if missing:
        return f"checks have not run: {', '.join(missing)}"
    if request.state is MergeRequestState.CONFLICT:
        return f"{request.outcome}; run `nessie-ops ci up --recreate`"
    return "" if request.state is MergeRequestState.OPEN else f"the request is closed: {request.outcome}"


def _try(client: NessieClient, request: MergeRequest) -> str:
    wanted = Merge(from_ref=request.source, from_hash=request.source_hash, meta=NewCommit(message=""), dry_run=True)
    try:
        client.merge(request.target, None, wanted)
    except (MergeConflict, ReferenceConflict) as error:
        keys = ", ".join(f"'{conflict.key}'" for conflict in error.conflicts)
        return f"'{request.target}' changed {keys} as well"
    except Forbidden as error:
        return error.message
    return ""


def _describe(branch: Reference, is_new: bool = False) -> CiBranch:
    properties = branch.properties
    base, target = CommitHash(properties.get(BASE, branch.hash)), properties.get(TARGET, "")
    expires_at, reason = properties.get(EXPIRES_AT, ""), properties.get(QUARANTINED, "")
    months = tuple(properties.get(MONTHS, "").split())
    return CiBranch(branch.name, branch.hash, base, target, expires_at, is_new, reason, months)


def _join(months: Iterable[str]) -> str:
    return " ".join(sorted(set(months)))


def _check_ours(branch: Reference) -> None:
    if not is_ours(branch):
        raise BadRequest(f"Branch '{branch.name}' was not opened by `nessie-ops ci up`; choose another name.")


def _check_target(branch: Reference, target: str) -> None:
    before = branch.properties.get(TARGET, "")
    if before != target:
        raise BadRequest(f"base: '{branch.name}' was opened from '{before}'; begin anew from '{target}' by --recreate.")
