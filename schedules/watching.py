"""Which branches of others are validated, and when: the sensor that launches `validate_branch`.

Its cursor is a number of the reference log, and what happens follows from what is in the catalog then: each branch that
moved is looked at as it is now, so of many commits the newest alone counts.  While a run is at work on a branch, the
branch waits in the cursor.  The key of a run names the branch, its commit and the move that brought it there, so a tick
that is repeated, or a daemon that died before it kept the cursor, launches nothing twice.
"""

import os
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import dagster as dg

from assets.branch_changes import is_empty
from assets.run_branches import PREFIX
from assets.runs import BRANCH_TAG
from assets.validation import BY, QUARANTINED_BY, find_request, is_done
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, ReferenceConflict, ReferenceNotFound, StoreUnavailable
from nessie_ops.mergerequests.leases import OWNED, OWNER
from nessie_ops.model import QUARANTINED, VALIDATE, Branch, CommitHash, Reference
from resources.catalog import CatalogResource
from schedules.endings import FINISHED
from schedules.feed import Cursor, read_cursor, read_moves, write_cursor
from schedules.validating import validate_branch

VALIDATE_VARIABLE = "NESSIE_OPS_VALIDATE"
COMMIT_TAG = "nessie/validates_hash"
MAX_MOVES = 1_000  # of one tick: the next one goes on from there
MAX_LAUNCHES = 10  # of one tick: other branches wait for the next one
MAX_LOOKED_AT = 1_000  # branches of one tick, which must end within a minute; the others wait, too
_MAX_BRANCHES = 1_000_000
_INTERVAL_S = 10
_MAX_TOLD = 2_000  # characters of what a tick says
_RECENT_MOVES = 100  # of a branch, looked through for the one that brought it to its head
_LIVE = [status for status in dg.DagsterRunStatus if status not in FINISHED]

IsLive = Callable[[str], bool]


class Found(NamedTuple):
    """What is to be done about a branch: validate `commit` for a merge into `target`, wait, or nothing; and why."""

    name: str
    why: str
    commit: CommitHash | None = None
    target: str = ""
    waits: bool = False


def get_validated() -> re.Pattern[str] | None:
    """What the names of branches match, whole, that are validated without being asked for; BadRequest."""
    text = os.environ.get(VALIDATE_VARIABLE, "")
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise BadRequest(f"{VALIDATE_VARIABLE}: '{text[:80]}' is not a regular expression: {error}.") from None


@dg.sensor(job=validate_branch, minimum_interval_seconds=_INTERVAL_S, default_status=dg.DefaultSensorStatus.RUNNING)
def validate_commits(context: dg.SensorEvaluationContext, catalog: CatalogResource) -> dg.SensorResult | dg.SkipReason:
    """One run for the newest commit of each branch that others have moved and that is to be validated."""
    cursor, wanted = read_cursor(context.cursor), get_validated()

    def is_live(name: str) -> bool:
        runs = dg.RunsFilter(job_name=validate_branch.name, tags={BRANCH_TAG: name}, statuses=_LIVE)
        return bool(context.instance.get_runs(runs, limit=1))

    try:
        client = catalog.client
        page = read_moves(client, cursor.seq, MAX_MOVES)
        moved = _list_validated(client, wanted, catalog.main) if page.lost else [move.name for move in page.moves]
        names = [*cursor.waiting, *moved]
        found, left = _decide_all(client, names, wanted, catalog.main, is_live)
        runs = [_to_request(client, row, row.commit) for row in found if row.commit]
    except StoreUnavailable as error:
        return dg.SkipReason(f"nothing is lost, it goes on from number {cursor.seq}: {error.message}"[:_MAX_TOLD])
    told = "; ".join(f"{row.name}: {row.why}" for row in found)
    reason = f"looks at all branches, since {page.lost}. {told}" if page.lost else told
    after = write_cursor(Cursor(page.last, (*left, *(row.name for row in found if row.waits))))
    skip = None if runs else reason[:_MAX_TOLD] or "no branch has moved"
    return dg.SensorResult(run_requests=runs, cursor=after, skip_reason=skip)


def _decide_all(
    client: NessieClient, names: Iterable[str], wanted: re.Pattern[str] | None, main: str, is_live: IsLive
) -> tuple[list[Found], list[str]]:
    """What is to be done about branches, each once, in order; and those that were left for the next tick."""
    distinct = [name for name in dict.fromkeys(names) if name != main and not name.startswith(PREFIX)]
    found: list[Found] = []
    for number, name in enumerate(distinct):
        if number == MAX_LOOKED_AT or sum(row.commit is not None for row in found) == MAX_LAUNCHES:
            return found, distinct[number:]
        found.append(decide(client, name, wanted, main, is_live))
    return found, []


def decide(client: NessieClient, name: str, wanted: re.Pattern[str] | None, main: str, is_live: IsLive) -> Found:
    """What is to be done about a branch as it is now."""
    try:
        branch = client.get_reference(name)
    except ReferenceNotFound:
        return Found(name, "is gone")
    target = _target(branch, wanted, main)
    if not target:
        return Found(name, "is not validated")
    if QUARANTINED in branch.properties and branch.properties.get(QUARANTINED_BY) != BY:
        return Found(name, f"is quarantined: {branch.properties[QUARANTINED]}")
    if is_done(find_request(client, name, target), branch.hash):
        return Found(name, f"has its request for {branch.hash}")
    try:
        if is_empty(client, name, branch.hash, target):
            return Found(name, f"brings nothing to '{target}'")
    except (ReferenceNotFound, ReferenceConflict, BadRequest) as error:  # no such target, nothing in common with it
        return Found(name, error.message)
    if is_live(name):
        return Found(name, "waits for the run that is at work on it", waits=True)
    return Found(name, f"{branch.hash} is validated for '{target}'", branch.hash, target)


def _target(branch: Reference, wanted: re.Pattern[str] | None, main: str) -> str:
    """Where to a branch shall be merged: its property says, or it is main for the names that are wanted."""
    if (
        not isinstance(branch, Branch) or branch.properties.get(OWNER) == OWNED
    ):  # the platform makes and checks it itself
        return ""
    matches = wanted is not None and wanted.fullmatch(branch.name)
    return branch.properties.get(VALIDATE) or (main if matches else "")


def _to_request(client: NessieClient, found: Found, commit: CommitHash) -> dg.RunRequest:
    moves = client.list_moves(name=found.name, limit=_RECENT_MOVES, newest_first=True)
    came = next((move.seq for move in moves if move.after == commit and move.before != commit), 0)
    config = {"branch": found.name, "commit": commit, "target": found.target}
    return dg.RunRequest(
        f"{found.name} {found.target} {commit} {came}",
        {"ops": {"validate_commit": {"config": config}}},
        {BRANCH_TAG: found.name, COMMIT_TAG: commit},
    )


def _list_validated(client: NessieClient, wanted: re.Pattern[str] | None, main: str) -> list[str]:
    """The names of all branches that are validated."""
    return [found.name for found in client.list_references(limit=_MAX_BRANCHES) if _target(found, wanted, main)]
