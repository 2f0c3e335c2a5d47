"""A run's branch that waits to be merged: asked for by the run, carried out by a run of its own, followed by a sensor.

The merge request in the catalog is the truth: it is merged once, whoever asks and however often.  What happens next
follows from its state alone (`decide`), so a tick that is repeated, or a daemon that died between looking and
launching, comes to the same.  Knows nothing of Dagster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from assets.run_branches import BASE, CONFLICTS, MAX_REBASES, PREFIX, REBASES, RUN_ID, VALIDATED_COMMIT, check_mergeable
from nessie_ops.client import NessieClient
from nessie_ops.errors import ReferenceNotFound
from nessie_ops.model import QUARANTINED, CheckResult, MergeRequest, MergeRequestState, NewCommit, NewMergeRequest

MAX_FAILURES = 5  # runs of one attempt to merge that fail before a person has to look


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
) -> MergeRequest:
    """The merge request for what was validated on a run's branch, with what its checks found; once, however often
    called.

    NotValidated when there is nothing to vouch for the branch; errors are those of `create_merge_request`.
    """
    commit = check_mergeable(client.get_reference(branch))
    mark = {RUN_ID: (branch.removeprefix(PREFIX),), VALIDATED_COMMIT: (commit,)}
    request = client.create_merge_request(
        NewMergeRequest(
            source=branch,
            source_hash=commit,
            target=main,
            title=meta.message,
            author=author,
            required_checks=tuple(required),
            needs_approval=needs_approval,
            delete_source=True,
            properties={**meta.properties, **mark},
        )
    )
    if request.state is MergeRequestState.MERGED:
        return request
    return client.report_checks(request.number, commit, list(results), by=author)


def merge_request(client: NessieClient, number: int, by: str = "") -> MergeRequest:
    """Merge; a branch in conflict is marked, so that its run opens it on top of the new target the next time."""
    done = client.merge_merge_request(number, by=by)
    if done.state is MergeRequestState.CONFLICT and done.source.startswith(PREFIX):
        tables = ", ".join(str(conflict.key) for conflict in done.conflicts if conflict.key)
        client.update_properties(done.source, {CONFLICTS: tables}, expected=done.source_hash)
    return done


def decide(request: MergeRequest, source: Source, failures: int) -> Decision:
    """What is to be done about a merge request.

    `failures` counts the runs of this attempt, to merge or to re-base, that have failed.
    """
    if request.state not in (MergeRequestState.OPEN, MergeRequestState.CONFLICT):
        return Decision(Next.WAIT, f"is {request.state}")
    if source.quarantined:
        return Decision(Next.CLOSE, f"'{request.source}' is quarantined: {source.quarantined}")
    if failures >= MAX_FAILURES:
        return Decision(Next.ASK, f"{failures} runs have failed: look at them, then retry it")
    if request.state is MergeRequestState.CONFLICT:
        if source.rebases is None:
            return Decision(Next.ASK, f"{request.outcome}: merge '{request.target}' into the branch, then retry it")
        if source.rebases >= MAX_REBASES:
            return Decision(Next.ASK, f"{request.outcome}, {source.rebases + 1} times in a row")
        return Decision(Next.REBASE, request.outcome)
    if request.is_stale:
        return Decision(Next.CLOSE, f"'{request.source}' has moved on from commit {request.source_hash}, or is gone")
    if request.failed:
        return Decision(Next.CLOSE, f"checks failed: {', '.join(request.failed)}")
    if request.waits_for:
        return Decision(Next.WAIT, f"waits for {', '.join(request.waits_for)}")
    return Decision(Next.MERGE, "all checks passed")


def look_at_source(client: NessieClient, request: MergeRequest) -> Source:
    """What the branch of a merge request says now."""
    try:
        properties: Mapping[str, str] = client.get_reference(request.source).properties
    except ReferenceNotFound:
        return Source(None)
    is_ours = request.source.startswith(PREFIX) and BASE in properties
    return Source(int(properties[REBASES]) if is_ours else None, properties.get(QUARANTINED, ""))


def list_waiting(client: NessieClient) -> list[MergeRequest]:
    """Merge requests that something may still come of, oldest first."""
    states = (MergeRequestState.OPEN, MergeRequestState.CONFLICT)
    found = [request for state in states for request in client.list_merge_requests(state=state)]
    return sorted(found, key=lambda request: request.number)
