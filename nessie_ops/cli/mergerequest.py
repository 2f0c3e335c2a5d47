"""`nessie-ops merge-request`: branches that wait to be merged until checks, and maybe a person, vouch for them."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from nessie_ops.cli.connection import AsJson, StoreUrl, Uri, open_catalog, reference_argument, reference_option
from nessie_ops.cli.output import print_json, print_rows, print_table
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, MergeRequestNotReady
from nessie_ops.model import CheckResult, CommitHash, MergeRequest, MergeRequestState, NewMergeRequest, parse_hash

if TYPE_CHECKING:
    from nessie_ops.mergerequests import MergeRequests

app = typer.Typer(help="Branches that wait to be merged until checks vouch for them.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(help="Number of the merge request.", min=1)]
By = Annotated[str, typer.Option("--by", help="Who does it.  [default: your login]", show_default=False)]
Hash = Annotated[
    str, typer.Option("--hash", help="The commit that this is about.  [default: the request's]", show_default=False)
]


@contextmanager
def _open(uri: str, store: str) -> Iterator[MergeRequests | NessieClient]:
    with open_catalog(uri, store) as catalog:
        if isinstance(catalog, NessieClient):
            yield catalog
            return
        from nessie_ops.mergerequests import MergeRequests  # here, as it loads a database's libraries

        yield MergeRequests(catalog)


@app.command("list")
def list_requests(
    state: Annotated[MergeRequestState | None, typer.Option(help="Only those in this state.")] = None,
    source: Annotated[str, typer.Option(help="Only those of this branch.")] = "",
    target: Annotated[str, typer.Option(help="Only those into this branch.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 100,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """List merge requests, newest first."""
    with _open(uri, store) as requests:
        found = requests.list_merge_requests(state=state, source=source, target=target, limit=limit)
    if as_json:
        print_json(found)
    else:
        rows = [
            (str(row.number), row.state, f"{row.source} -> {row.target}", row.title, _describe(row)) for row in found
        ]
        print_table(("number", "state", "branches", "title", ""), rows)


@app.command("show")
def show_request(number: Number, uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Show a merge request with its checks and what was done to it."""
    with _open(uri, store) as requests:
        _show(requests.get_merge_request(number), as_json)


@app.command("open")
def open_request(
    source: Annotated[str, reference_argument("The branch to merge.")],
    target: Annotated[str, reference_option("--into", help="Where to.  [default: the default branch]")] = "",
    title: Annotated[str, typer.Option("--title", help="What it is, in a line.")] = "",
    reason: Annotated[str, typer.Option("--reason", "-m", help="Why, in any number of lines.")] = "",
    checks: Annotated[
        list[str] | None, typer.Option("--check", help="A check that must have passed; repeat it for more.")
    ] = None,
    needs_approval: Annotated[bool, typer.Option("--needs-approval", help="A person must approve it, too.")] = False,
    delete_source: Annotated[bool, typer.Option("--delete-source", help="Delete the branch with the merge.")] = False,
    by: By = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Ask for a merge of a branch as it is now; again after it has changed, the request moves on to that."""
    new = NewMergeRequest(
        source=source,
        target=target,
        title=title,
        reason=reason,
        author=_who(by),
        required_checks=tuple(checks or ()),
        needs_approval=needs_approval,
        delete_source=delete_source,
    )
    with _open(uri, store) as requests:
        _show(requests.create_merge_request(new), as_json)


@app.command("report")
def report(
    number: Number,
    passed: Annotated[list[str] | None, typer.Option("--passed", help="A check that passed; repeatable.")] = None,
    failed: Annotated[list[str] | None, typer.Option("--failed", help="A check that failed; repeatable.")] = None,
    summary: Annotated[str, typer.Option("--summary", help="What they found.")] = "",
    at: Hash = "",
    by: By = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Tell what checks found at the commit that is to be merged."""
    results = [
        CheckResult(name=name, passed=ok, summary=summary)
        for ok, names in ((True, passed), (False, failed))
        for name in names or ()
    ]
    if not results:
        raise BadRequest("give --passed or --failed with the name of a check.")
    with _open(uri, store) as requests:
        _show(requests.report_checks(number, _commit(requests, number, at), results, by=_who(by)), as_json)


@app.command("approve")
def approve(
    number: Number, at: Hash = "", by: By = "", uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False
) -> None:
    """Approve the merge of the commit that the request is about now."""
    with _open(uri, store) as requests:
        _show(requests.approve_merge_request(number, _commit(requests, number, at), by=_who(by)), as_json)


@app.command("merge")
def merge(number: Number, by: By = "", uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Merge a request that checks vouch for; exit code 1 when it was not merged."""
    with _open(uri, store) as requests:
        done = requests.merge_merge_request(number, by=_who(by))
    _show(done, as_json)
    if done.state is not MergeRequestState.MERGED:
        raise MergeRequestNotReady(f"merge request {number} was not merged, it is {done.state}: {done.outcome}.")


@app.command("retry")
def retry(number: Number, by: By = "", uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Open a request again, at the commit where its branch ends now."""
    with _open(uri, store) as requests:
        _show(requests.retry_merge_request(number, by=_who(by)), as_json)


@app.command("close")
def close(
    number: Number,
    reason: Annotated[str, typer.Option("--reason", "-m", help="Why.")],
    by: By = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Close a request without merging it."""
    with _open(uri, store) as requests:
        _show(requests.close_merge_request(number, reason, by=_who(by)), as_json)


def _commit(requests: MergeRequests | NessieClient, number: int, given: str) -> CommitHash:
    return parse_hash(given, "--hash") if given else requests.get_merge_request(number).source_hash


def _who(given: str) -> str:
    if given:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        return ""


def _describe(request: MergeRequest) -> str:
    if request.state is not MergeRequestState.OPEN:
        return request.outcome or f"as {request.merge_hash}"
    if request.is_stale:
        return "stale: the branch has moved on"
    if request.failed:
        return f"failed: {', '.join(request.failed)}"
    return f"waits for: {', '.join(request.waits_for)}" if request.waits_for else "ready"


def _show(request: MergeRequest, as_json: bool) -> None:
    if as_json:
        print_json(request)
        return
    typer.echo(f"{request.number}  {request.state}  {request.source} -> {request.target}  {request.title}")
    typer.echo(f"commit {request.source_hash}, attempt {request.attempt}: {_describe(request)}")
    if request.reason:
        typer.echo(request.reason)
    found = {check.name: check for check in request.checks}
    names = [*request.required_checks, *(name for name in found if name not in request.required_checks)]
    print_rows([(name, _describe_check(found.get(name)), _first_line(found.get(name))) for name in names])
    print_rows([(f"{step.at:%Y-%m-%d %H:%M:%S}Z", step.by, step.what) for step in request.steps])


def _describe_check(result: CheckResult | None) -> str:
    return "waiting" if result is None else "passed" if result.passed else "failed"


def _first_line(result: CheckResult | None) -> str:
    return result.summary.partition("\n")[0] if result else ""
