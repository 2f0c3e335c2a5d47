"""What `nessie-ops ci` does: a function for each command, which answers with what is printed and an exit code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from assets.ci_branches import drop_branch, full_name, list_branches, merge_branch
from nessie_ops.ci.here import run_here
from nessie_ops.ci.markdown import to_markdown
from nessie_ops.ci.outcomes import Execute, Report, Result, Tell
from nessie_ops.ci.server import DagsterServer
from nessie_ops.ci.trying import Wanted, try_change
from nessie_ops.cli.ci import Answer, Asked, Row
from nessie_ops.cli.output import to_text
from nessie_ops.client import NessieClient
from nessie_ops.instance import open_instance
from nessie_ops.runtime.home import get_home
from resources.catalog import CatalogResource

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # a file whose Markdown GitHub shows with the run of a workflow
CODES = {Result.PASSED: 0, Result.CHECKS_FAILED: 1, Result.RUN_FAILED: 3}


def up(asked: Asked, tell: Tell) -> Answer:
    """Try a change, on the webserver that it names or in this process, and write the summaries to its folder."""
    client, target = _client(asked.base)
    select, months = tuple(asked.select), tuple(asked.months)
    wanted = Wanted(
        asked.name, select, months, target, asked.lease, asked.source, asked.recreate, asked.quarantine, asked.by
    )
    with _open_execute(asked.dagster) as execute:
        report = _try(client, wanted, execute, tell)
    _write(report, Path(asked.summary))
    line = f"{report.branch.name}: {report.reason or report.result}"
    return Answer(msgspec.to_builtins(report), [line], CODES[report.result])


@contextmanager
def _open_execute(dagster: str) -> Iterator[Execute]:
    if dagster:
        with DagsterServer(dagster) as server:
            yield server.run
    else:
        with open_instance(get_home()) as instance:
            yield run_here(instance)


def merge(name: str, *, by: str, dry_run: bool) -> Answer:
    """Merge what was checked, once; 1 when it is not, or would not be."""
    client, _ = _client("")
    done = merge_branch(client, full_name(name), by=by, dry_run=dry_run)
    if done.reason:
        line = f"{done.branch} is not merged: {done.reason}"
    elif dry_run and not done.already:
        line = f"{done.branch} would be merged by request {done.number}"
    else:
        line = f"{done.branch} {'was merged before' if done.already else 'is merged'}: commit {done.commit}"
    return Answer(msgspec.to_builtins(done) | {"dryRun": dry_run}, [line], 1 if done.reason else 0)


def down(name: str, *, by: str, dry_run: bool) -> Answer:
    """Drop the branch and what asks for its merge."""
    client, _ = _client("")
    branch = full_name(name)
    head = drop_branch(client, branch, by=by, dry_run=dry_run)
    word = (
        "is gone already" if head is None else f"would be dropped at {head}" if dry_run else f"is dropped, was {head}"
    )
    value = {"branch": branch, "head": head, "dropped": head is not None and not dry_run, "dryRun": dry_run}
    return Answer(value, [f"{branch} {word}"], 0)


def list_all() -> Answer:
    """All branches of changes, with the state of what asks for their merge."""
    client, _ = _client("")
    now, rows, values = datetime.now(UTC), list[Row](), []
    for branch in list_branches(client):
        request = next(iter(client.list_merge_requests(source=branch.name, target=branch.target, limit=1)), None)
        is_at = request is not None and request.source_hash == branch.head
        state = f"request {request.number} {request.state}" if request and is_at else "not checked"
        if request and is_at and request.failed:
            state += f", failed: {', '.join(request.failed)}"
        expired = branch.has_expired(now)
        values.append(
            msgspec.to_builtins(branch)
            | {"expired": expired, "mergeRequest": msgspec.to_builtins(request) if request else None}
        )
        end = f"{'expired' if expired else 'kept until'} {branch.expires_at or 'nobody knows when'}"
        rows.append((branch.name, branch.head[:12], f"into {branch.target}", end, branch.quarantined or state))
    return Answer(values, [], 0, rows)


def _client(target: str) -> tuple[NessieClient, str]:
    catalog = CatalogResource()
    return catalog.client, target or catalog.main


def _try(client: NessieClient, wanted: Wanted, execute: Execute, tell: Tell) -> Report:
    report = try_change(client, wanted, execute, tell)
    # A server inside this process ends with it, so nothing can be linked to there.
    return report if os.environ.get("NESSIE_OPS_URI") else msgspec.structs.replace(report, catalog="")


def _write(report: Report, folder: Path) -> None:
    markdown = to_markdown(report)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.md").write_text(markdown, encoding="utf-8")
    (folder / "summary.json").write_text(to_text(report), encoding="utf-8")
    if shown := os.environ.get(STEP_SUMMARY):
        with Path(shown).open("a", encoding="utf-8") as file:
            file.write(markdown)
