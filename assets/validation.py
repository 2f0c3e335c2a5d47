"""A branch that others write: what its validation says of it in the catalog, for exactly one commit.

Red ones are quarantined, so that nobody merges them; the next commit that is green lifts that, and no other
quarantine.  Each step may be repeated after a crash.  Knows neither Dagster nor Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

from assets.branch_changes import Work
from assets.branch_rules import Verdict
from assets.run_branches import MAX_REASON, QUARANTINED_AT, VALIDATED_COMMIT, Clock, utc_now
from nessie_ops.client import NessieClient
from nessie_ops.errors import MergeRequestNotReady, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import (
    QUARANTINED,
    CheckResult,
    CommitHash,
    MergeRequest,
    MergeRequestState,
    NewMergeRequest,
)

QUARANTINED_BY, BY = "quarantined_by", "validate_branch"
VALIDATION_RUN = "nessie_ops.validation_run_id"  # property of the request and of the commit that merges it
MAX_SUMMARY = 3_000  # characters of what a check found, with sample rows
MAX_AUTHOR = 500  # characters that a request takes
_LIVE = (MergeRequestState.OPEN, MergeRequestState.CONFLICT)


def find_request(client: NessieClient, branch: str, target: str) -> MergeRequest | None:
    """The request to merge `branch` into `target` that is open or in conflict, else the newest one."""
    for state in (*_LIVE, None):
        for request in client.list_merge_requests(state=state, source=branch, target=target, limit=1):
            return request
    return None


def is_done(request: MergeRequest | None, commit: CommitHash) -> bool:
    """Whether all is said that a validation of `commit` would say: its request is over, or waits for no check."""
    if request is None or request.source_hash != commit:
        return False
    waits = [name for name in request.waits_for if name != "approval"]
    return request.state not in _LIVE or bool(request.checks and not waits)


def required_before(request: MergeRequest | None) -> list[str]:
    """The tables that checks of a waiting request are about: a newer commit must be vouched for by these, too."""
    if request is None or request.state not in _LIVE:
        return []
    tables = {name.partition(":")[0] for name in request.required_checks if ":" in name}
    return sorted(tables)


def describe(verdicts: Sequence[Verdict]) -> str:
    """What stops the merge, in one line; empty when nothing does."""
    bad = [verdict for verdict in verdicts if verdict.is_required and not verdict.passed]
    names = [f"{verdict.label} ({verdict.bad_rows} rows)" if verdict.audit else verdict.label for verdict in bad]
    return f"checks failed: {', '.join(names)}" if names else ""


def ask(
    client: NessieClient,
    branch: str,
    target: str,
    work: Work,
    verdicts: Sequence[Verdict],
    *,
    run_id: str,
    code_version: str,
) -> MergeRequest | None:
    """The request to merge the commit, with its verdicts; None when the branch has moved on or is gone.

    A branch that changes what no rule is about needs a person's approval.  `run_id` is the first run's of all that
    retry this validation: the request that it has closed already is not made again.
    """
    known = find_request(client, branch, target)
    if known and known.state not in _LIVE and _is_by(known, work.commit, run_id):
        return known
    words = client.get_commit(work.commit)
    wanted = NewMergeRequest(
        source=branch,
        source_hash=work.commit,
        target=target,
        author=next(iter(words.authors), words.committer)[:MAX_AUTHOR],
        required_checks=tuple(verdict.label for verdict in verdicts if verdict.is_required),
        needs_approval=bool(work.others),
        properties={
            VALIDATION_RUN: (run_id,),
            VALIDATED_COMMIT: (work.commit,),
            "nessie_ops.checks": tuple(_line(verdict) for verdict in verdicts),
            "nessie_ops.code_version": (code_version,),
        },
    )
    results = [CheckResult(name=row.label, passed=row.passed, summary=_summary(row)) for row in verdicts]
    try:
        request = client.create_merge_request(wanted)
        if request.state not in _LIVE:
            return request
        return client.report_checks(request.number, work.commit, results, by=BY)
    except (MergeRequestNotReady, ReferenceNotFound):
        if _is_at(client, branch, work.commit):
            raise
        return None


def set_quarantine(client: NessieClient, branch: str, commit: CommitHash, reason: str, clock: Clock = utc_now) -> bool:
    """Forbid merging `branch` while it ends at `commit`, or with no reason lift what this had forbidden.

    False when the branch has moved on or is gone; what others forbid is left alone.
    """
    since = clock().isoformat(timespec="seconds")
    marks = {QUARANTINED: reason[:MAX_REASON], QUARANTINED_AT: since, QUARANTINED_BY: BY}
    try:
        found = client.get_reference(branch)
        if QUARANTINED in found.properties and found.properties.get(QUARANTINED_BY) != BY:
            return found.hash == commit
        if reason:
            client.update_properties(branch, marks, expected=commit)
        elif QUARANTINED in found.properties:
            client.update_properties(branch, {}, tuple(marks), expected=commit)
        return reason != "" or found.hash == commit
    except (ReferenceConflict, ReferenceNotFound):
        return False


def _is_by(request: MergeRequest, commit: CommitHash, run_id: str) -> bool:
    return request.source_hash == commit and request.properties.get(VALIDATION_RUN) == (run_id,)


def _is_at(client: NessieClient, branch: str, commit: CommitHash) -> bool:
    try:
        return client.get_reference(branch).hash == commit
    except ReferenceNotFound:
        return False


def _line(verdict: Verdict) -> str:
    return f"{verdict.label} {'passed' if verdict.passed else 'failed' if verdict.is_required else 'warned'}"


def _summary(verdict: Verdict) -> str:
    return "\n\n".join((verdict.summary, *verdict.samples))[:MAX_SUMMARY]
