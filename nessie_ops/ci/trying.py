"""Trying a change: its branch is opened, its tables are loaded and checked there, and its merge is asked for.

What is asked for names, as required, every blocking check of every table that the branch changes, for each month that
was loaded on it; a result counts only if the check read what its tables hold at the branch's head.  Months write the
same tables one after another, so checks whose tables were written since are run again before that is asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

import msgspec

from assets.checks import all_rules
from assets.ci_branches import CiBranch, ask_to_merge, close_requests, full_name, open_branch
from assets.code_version import get_code_version
from assets.run_branches import MAX_REASON, Clock, Evidence, reads_same, utc_now
from assets.runs import content_key_of
from assets.transforms.audits import Audit
from assets.transforms.months import FIRST, Month
from assets.transforms.tables import NAMESPACES, TABLES
from nessie_ops.ci.outcomes import CheckOutcome, Execute, Execution, Report, Result, Task, Tell
from nessie_ops.ci.selection import Selected, checks_of, select, table_of
from nessie_ops.ci.tables import compare, list_changed
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.model import QUARANTINED, CheckResult, CommitHash, NewCommit
from nessie_ops.model.repository import parse_duration

_SHORT = re.compile(r"(\d{1,6})([dhm])")
_MAX_LOG = 1_000  # commits of the target looked through for the newest month
_MAX_COMMITS = 100  # of the branch that are listed
_MAX_SUMMARY = 1_000  # characters of what a check found
_BY = "ci"


class Wanted(NamedTuple):
    """What a person asks for; empty `months`: the newest of the target, empty `select`: all tables."""

    name: str
    select: tuple[str, ...] = ()
    months: tuple[str, ...] = ()
    target: str = "main"
    lease: str = "7d"
    source: str = ""
    recreate: bool = False
    quarantine: bool = False
    author: str = _BY


class _Plan(NamedTuple):
    wanted: Wanted
    selected: Selected
    months: tuple[str, ...]


def parse_lease(text: str) -> timedelta:
    """`7d`, `12h`, `30m`, or an ISO-8601 duration; BadRequest when it is neither, or no time at all."""
    match = _SHORT.fullmatch(text)
    units = {"d": "days", "h": "hours", "m": "minutes"}
    lease = timedelta(**{units[match[2]]: int(match[1])}) if match else parse_duration(text, "lease")
    if not timedelta(0) < lease <= timedelta(days=3650):
        raise BadRequest(f"lease: '{text[:40]}' is not between a minute and ten years.")
    return lease


def try_change(client: NessieClient, wanted: Wanted, execute: Execute, tell: Tell, clock: Clock = utc_now) -> Report:
    """Load and check what is wanted on its branch; how that ended.  BadRequest before anything is written."""
    lease, name, selected = parse_lease(wanted.lease), full_name(wanted.name), select(wanted.select)
    months = tuple(sorted({str(Month.parse(text)) for text in wanted.months})) or (
        _newest_month(client, wanted.target),
    )
    plan = _Plan(wanted, selected, months)
    again = wanted.recreate
    branch = open_branch(client, wanted.target, name, lease, NAMESPACES, months=months, recreate=again, clock=clock)
    close_requests(client, name, "what it asks for is being tried again", wanted.author)
    word = "opened from" if branch.is_new else "is there, opened from"
    tell(f"{branch.name} {word} {branch.target} at {branch.base[:12]}, kept until {branch.expires_at}")
    runs = _run(client, branch, plan, execute, tell)
    return _report(client, msgspec.structs.replace(branch, head=client.get_reference(name).hash), plan, runs)


def _newest_month(client: NessieClient, target: str) -> str:
    """The month that was published last; the first of all when none was."""
    for entry in client.list_log(client.get_reference(target).hash, limit=_MAX_LOG):
        if found := list(filter(_is_month, entry.commit_meta.all_properties.get("nessie_ops.partition", ()))):
            return max(found)
    return FIRST


def _is_month(text: str) -> bool:
    """Whether a commit, which anybody may write, names a month."""
    with suppress(BadRequest):
        return str(Month.parse(text)) == text
    return False


def _run(client: NessieClient, branch: CiBranch, plan: _Plan, execute: Execute, tell: Tell) -> list[Execution]:
    """Each month, until one does not succeed; then checks that are missing for what the branch holds in the end."""
    source, runs = plan.wanted.source, list[Execution]()
    checks = checks_of({*plan.selected.tables, *list_changed(client, branch.base, branch.head)})
    for month in plan.months:
        tell(f"{month}: {', '.join(plan.selected.tables)}")
        runs.append(execute(Task(branch.name, month, plan.selected.assets, checks, source), tell))
        if runs[-1].status != "SUCCESS":
            return runs
    head = client.get_reference(branch.name).hash
    for month in branch.months:
        audits = _audits(month)
        found = {row.label for run in runs for row in run.checks if row.month == month and _holds(client, row, head)}
        names = {key: f"{table_of(key.asset_key)}:{key.name}" for key in checks}
        again = frozenset(key for key in checks if names[key] in audits and f"{names[key]} {month}" not in found)
        if again:
            tell(f"{month}: checks of what the branch holds now")
            runs.append(execute(Task(branch.name, month, frozenset(), again, source), tell))
    return runs


def _holds(client: NessieClient, row: CheckOutcome, head: CommitHash) -> bool:
    """Whether what a check of ours read is what is at `head`; of other checks nobody knows what they read."""
    audit = _audits(row.month).get(f"{row.table}:{row.name}")
    if audit is None or not row.at:
        return False
    keys = tuple(content_key_of(table) for table in audit.reads)
    return reads_same(client, Evidence(audit.label, CommitHash(row.at), keys), head)


def _audits(month: str) -> dict[str, Audit]:
    return {audit.label: audit for audit in all_rules(Month.parse(month))}


def _report(client: NessieClient, branch: CiBranch, plan: _Plan, runs: Sequence[Execution]) -> Report:
    changes = compare(client, branch.base, branch.head, plan.selected.tables)
    checks = list({row.label: row for run in runs for row in run.checks}.values())
    counted = [row for row in checks if _holds(client, row, branch.head)]
    names = {*plan.selected.tables, *(change.key for change in changes)}
    required = [f"{audit.label} {month}" for month in branch.months for audit in _blocking(month, names)]
    found = {row.label for row in counted}
    not_run = tuple(label for label in required if label not in found)
    result, reason = _judge(runs, checks, not_run)
    if plan.wanted.quarantine and result is not Result.PASSED:
        client.update_properties(branch.name, {QUARANTINED: reason[:MAX_REASON]})
    number = None
    if result is not Result.RUN_FAILED and branch.head != branch.base:
        changed = [change.key for change in changes if change.change != "unchanged"]
        number = _ask(client, branch, plan.wanted.author, changed, runs, counted, required)
    log = client.list_log(branch.head, limit_hash=branch.base, limit=_MAX_COMMITS)
    commits = tuple(entry.commit_meta.hash for entry in log if entry.commit_meta.hash != branch.base)
    return Report(
        branch=branch,
        result=result,
        reason=reason,
        months=plan.months,
        selected=plan.selected.tables,
        changes=changes,
        checks=tuple(checks),
        not_run=not_run,
        runs=tuple(runs),
        commits=commits,
        merge_request=number,
        catalog=client.shown_uri,
    )


def _blocking(month: str, tables: Iterable[str]) -> list[Audit]:
    wanted = set(tables)
    return [audit for audit in all_rules(Month.parse(month)) if audit.blocking and audit.table.name in wanted]


def _judge(runs: Sequence[Execution], checks: Sequence[CheckOutcome], not_run: Sequence[str]) -> tuple[Result, str]:
    failed = [row.label for row in checks if row.blocking and not row.passed]
    if failed:
        return Result.CHECKS_FAILED, f"checks failed: {', '.join(failed)}"
    for run in runs:
        if run.status != "SUCCESS":
            return Result.RUN_FAILED, f"run {run.run_id} ended as {run.status}: {run.reason}"
    if not_run:  # someone wrote to the branch meanwhile
        return Result.RUN_FAILED, f"no result at the branch's head of: {', '.join(not_run)}"
    return Result.PASSED, ""


def _ask(
    client: NessieClient,
    branch: CiBranch,
    author: str,
    changed: Collection[str],
    runs: Sequence[Execution],
    counted: Sequence[CheckOutcome],
    required: Sequence[str],
) -> int:
    results = [
        CheckResult(name=row.label, passed=row.passed, summary=row.description[:_MAX_SUMMARY]) for row in counted
    ]
    meta = NewCommit(
        message=f"Merge {branch.name}",
        properties={
            "nessie_ops.run_id": tuple(run.run_id for run in runs),
            "nessie_ops.job": ("load_on_branch",),
            "nessie_ops.partition": branch.months,
            "nessie_ops.checks": tuple(f"{name} {word}" for name, word in sorted(_words(counted).items())),
            "nessie_ops.code_version": (get_code_version(),),
            "nessie_ops.assets": tuple(name for name in TABLES if name in changed),
            "nessie_ops.branch": (branch.name,),
        },
    )
    return ask_to_merge(client, branch, meta, results, required, author=author).number


def _words(counted: Sequence[CheckOutcome]) -> dict[str, str]:
    """Each check with `passed`, or `warned` when it did not pass for each month."""
    words: dict[str, str] = {}
    for row in counted:
        name = f"{row.table}:{row.name}"
        words[name] = "passed" if row.passed and words.get(name) != "warned" else "warned"
    return words
