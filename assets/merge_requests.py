"""A run's branch that waits to be merged: asked for by the run, carried out by a run of its own, followed by a sensor.

The merge request in the catalog is the truth: it is merged once, whoever asks and however often.  What happens next
follows from its state alone (`decide`), so a tick that is repeated, or a daemon that died between looking and
launching, comes to the same.  Knows nothing of Dagster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple, TypeVar

from assets.run_branches import (
    BASE,
    CONFLICTS,
    MAX_REBASES,
    PREFIX,
    REBASES,
    check_mergeable,
    lift_quarantine,
    mark_of,
)
from nessie_ops.client import NessieClient
from nessie_ops.errors import MergeRequestNotReady, OutcomeUnknown, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import QUARANTINED, CheckResult, MergeRequest, MergeRequestState, NewCommit, NewMergeRequest

MAX_FAILURES = 5  # runs of one attempt to merge that fail before a person has to look
MAX_WAITING = 10_000  # in each state: the most that a catalog lets be open
_TRIES = 3  # of what is asked while answers are lost

T = TypeVar("T")


class Next(StrEnum):
    """What is to be done about a merge request."""

    WAIT = "wait"
    MERGE = "merge"
    REBASE = "rebase"
    CLOSE = "close"
    ASK = "ask"  # a person


class Source(NamedTuple):
    """What the branch of a request says: how often its run was re-based (None: it is no run's), why it may not go."""

    rebases: int | None
    quarantined: str = ""
    is_gone: bool = False


class Runs(NamedTuple):
    """The runs of an attempt: the newest, the one under way, the one that a person cancelled; how many have failed.

    They are named by their ids, empty where there is none.
    """

    newest: str = ""
    under_way: str = ""
    cancelled: str = ""
    failures: int = 0


class Decision(NamedTuple):
    what: Next
    why: str


def ask_to_merge(
    client: NessieClient,
    main: str,
    branch: str,
    meta: NewCommit,
    results: Iterable[CheckResult],
    required: Iterable[str],
    *,
    author: str = "",
    needs_approval: bool = False,
    release: bool = False,
    validated: str | None = None,
) -> MergeRequest:
    """The merge request for what was validated on a run's branch, with what its checks found; once, however often
    called.

    `release` lifts a quarantine, which an earlier attempt left.  `validated` is the validated hash as the caller
    remembers it: it tells the request when the branch is merged and gone already.  NotValidated when there is nothing
    to vouch for the branch, and the errors of `create_merge_request`.
    """
    if done := find_merged(client, main, branch, validated):
        return done
    found = client.get_reference(branch)
    commit = check_mergeable(found)
    if release:
        lift_quarantine(client, found)
    new = NewMergeRequest(
        source=branch,
        source_hash=commit,
        target=main,
        title=meta.message,
        author=author,
        required_checks=tuple(required),
        needs_approval=needs_approval,
        delete_source=True,
        properties={**meta.properties, **mark_of(found, commit)},
    )
    request = _surely(lambda: client.create_merge_request(new))
    if request.state is MergeRequestState.MERGED:
        return request
    given = list(results)
    try:
        return _surely(lambda: client.report_checks(request.number, commit, given, by=author))
    except MergeRequestNotReady:
        now = client.get_merge_request(request.number)
        if now.state is not MergeRequestState.MERGED:
            raise
        return now  # the answer to an earlier report was lost, and the sensor was quick


def _surely(ask: Callable[[], T]) -> T:
    """The answer to what may be asked again: whatever was done, it is done once."""
    for _ in range(_TRIES - 1):
        with suppress(OutcomeUnknown):
            return ask()
    return ask()


def find_merged(client: NessieClient, main: str, branch: str, validated: str | None) -> MergeRequest | None:
    """The request that merged exactly the commit `validated` of `branch`, if there is one."""
    found = client.list_merge_requests(state=MergeRequestState.MERGED, source=branch, target=main) if validated else []
    return next((request for request in found if request.source_hash == validated), None)


def merge_request(client: NessieClient, number: int, by: str = "") -> MergeRequest:
    """Merge; a branch in conflict is marked, so that its run opens it on top of the new target the next time.

    The answer tells what became of it, also when that was decided before.  MergeRequestNotReady while it waits for a
    check or for approval.
    """
    try:
        done = _surely(lambda: client.merge_merge_request(number, by=by))
    except MergeRequestNotReady:
        done = client.get_merge_request(number)
        if done.state is MergeRequestState.OPEN:
            raise
    mark_conflict(client, done)
    return done


def mark_conflict(client: NessieClient, request: MergeRequest) -> None:
    """Mark the branch of a request in conflict, whoever tried to merge it, unless it has moved on since."""
    if request.state is not MergeRequestState.CONFLICT or not request.source.startswith(PREFIX):
        return
    tables = ", ".join(str(conflict.key) for conflict in request.conflicts if conflict.key)
    with suppress(ReferenceConflict, ReferenceNotFound):
        client.update_properties(request.source, {CONFLICTS: tables}, expected=request.source_hash)


def decide(request: MergeRequest, source: Source) -> Decision:
    """What is to be done about a merge request, as far as the catalog knows."""
    if request.state not in (MergeRequestState.OPEN, MergeRequestState.CONFLICT):
        return Decision(Next.WAIT, f"is {request.state}")
    if source.quarantined:
        return Decision(Next.CLOSE, f"'{request.source}' is quarantined: {source.quarantined}")
    if source.is_gone:
        return Decision(Next.CLOSE, f"'{request.source}' is gone")
    if request.state is MergeRequestState.CONFLICT:
        if source.rebases is None:
            return Decision(Next.ASK, f"{request.outcome}: merge '{request.target}' into the branch, then retry it")
        if source.rebases >= MAX_REBASES:
            return Decision(Next.ASK, f"{request.outcome}, {source.rebases + 1} times in a row")
        return Decision(Next.REBASE, request.outcome)
    if request.is_stale:
        return Decision(Next.CLOSE, f"'{request.source}' has moved on from commit {request.source_hash}")
    if request.failed:
        return Decision(Next.CLOSE, f"checks failed: {', '.join(request.failed)}")
    if request.waits_for:
        return Decision(Next.WAIT, f"waits for {', '.join(request.waits_for)}")
    return Decision(Next.MERGE, "all checks passed")


def decide_to_launch(decision: Decision, runs: Runs) -> Decision:
    """What remains of a decision to launch a run, in the light of those that were launched for the same attempt."""
    if decision.what not in (Next.MERGE, Next.REBASE) or not runs.newest:
        return decision
    if runs.under_way:
        return Decision(Next.WAIT, f"run {runs.under_way} is under way")
    if runs.cancelled:
        return Decision(Next.ASK, f"run {runs.cancelled} was cancelled: retry the request, or close it")
    if decision.what is Next.REBASE:  # it retries by itself what a retry can mend
        return Decision(Next.ASK, f"{decision.why}; run {runs.newest} ended without a new commit: execute it again")
    if runs.failures >= MAX_FAILURES:
        return Decision(Next.ASK, f"{runs.failures} runs have failed, last {runs.newest}: look at them, then retry it")
    return decision


def look_at_source(client: NessieClient, request: MergeRequest) -> Source:
    """What the branch of a merge request says now."""
    try:
        properties: Mapping[str, str] = client.get_reference(request.source).properties
    except ReferenceNotFound:
        return Source(None, is_gone=True)
    is_ours = request.source.startswith(PREFIX) and BASE in properties
    rebases = properties.get(REBASES, "") if is_ours else ""
    return Source(int(rebases) if rebases.isdecimal() else None, properties.get(QUARANTINED, ""))


def list_waiting(client: NessieClient) -> list[MergeRequest]:
    """Merge requests that something may still come of, oldest first."""
    states = (MergeRequestState.OPEN, MergeRequestState.CONFLICT)
    found = [row for state in states for row in client.list_merge_requests(state=state, limit=MAX_WAITING)]
    return sorted(found, key=lambda request: request.number)
