"""The report of a change as Markdown, for a comment on a pull request.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from nessie_ops.catalog.changes import Change
from nessie_ops.catalog.markdown import Markdown, code, escape, to_table
from nessie_ops.ci.outcomes import CheckOutcome, Report, Result

MAX_LENGTH = 60_000  # characters; a comment on GitHub has at most 65,536
_MARKS = {Result.PASSED: "✅", Result.CHECKS_FAILED: "❌", Result.RUN_FAILED: "💥"}


def to_markdown(report: Report) -> str:
    """All of the report; one that is too long for a comment ends with saying so."""
    branch = report.branch
    parts = [
        f"### {_MARKS[report.result]} {escape(branch.name)}: {report.result}",
        escape(report.reason),
        _tables(report),
        _schemas(report),
        _checks(report),
        *(_sample(check) for check in report.checks if not check.passed),
        _links(report),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}\n\n… the rest is in the JSON summary.\n"


def _tables(report: Report) -> str:
    head = ("table", "", "rows before", "rows after", "rows added", "removed", "bytes before", "after")
    return to_table(head, [_table(row, row.key in report.selected) for row in report.changes])


def _table(row: Change, is_selected: bool) -> Sequence[str]:
    sizes = (row.before.rows, row.after.rows, row.added.rows, row.removed.rows)
    numbers = (*sizes, row.before.size_bytes, row.after.size_bytes)
    return (code(row.key), row.change if is_selected else f"{row.change}, not selected", *(f"{n:,}" for n in numbers))


def _schemas(report: Report) -> str:
    rows = [(code(row.key), change) for row in report.changes for change in row.schema]
    return to_table(("table", "schema"), rows) if rows else "No table's columns changed."


def _checks(report: Report) -> str:
    passed = sum(check.passed for check in report.checks)
    lines = [f"Checks: {passed} of {len(report.checks)} passed."]
    if report.not_run:
        lines.append(f"Without a result: {', '.join(map(code, report.not_run))}.")
    return " ".join(lines)


def _sample(check: CheckOutcome) -> str:
    word = "fails" if check.blocking else "warns"
    head = f"**{code(check.label)} {word}**: {escape(check.description)}"
    return f"{head}\n\n{check.sample}" if check.sample else head


def _links(report: Report) -> str:
    branch = report.branch
    rows = [
        ("branch", _link(branch.name, _tree(report, branch.name)) + f", kept until {branch.expires_at}"),
        ("opened from", f"{escape(branch.target)} at {_commit(report, branch.base)}"),
        ("ends at", _commit(report, branch.head)),
        ("commits", ", ".join(_commit(report, commit) for commit in report.commits) or "none"),
        ("runs", ", ".join(_link(run.run_id, run.url) + f" ({run.month}, {run.status})" for run in report.runs)),
    ]
    if report.merge_request:
        rows.append(("merge request", str(report.merge_request)))
    return to_table(("", ""), [(name, Markdown(value)) for name, value in rows])


def _tree(report: Report, name: str) -> str:
    return f"{report.catalog}/api/v2/trees/{quote(name, safe='')}" if report.catalog else ""


def _commit(report: Report, commit: str) -> str:
    url = f"{report.catalog}/api/v2/trees/@{commit}/history" if report.catalog else ""
    return _link(commit[:12], url)


def _link(text: str, url: str) -> str:
    return f"[{code(text)}]({url})" if url else code(text)
