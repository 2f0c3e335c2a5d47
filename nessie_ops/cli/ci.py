"""`nessie-ops ci`: a proposed change is loaded and checked on a branch of its own, merged or dropped.

Exit codes: 0 done, and all blocking checks passed; 1 blocking checks failed, or it is not merged; 2 it cannot be
asked, as the command, the catalog or Dagster's server are not right; 3 the run failed or was cancelled, or something
broke that has no other code.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import typer

from nessie_ops.cli.connection import AsJson
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.errors import NessieOpsError

NOT_ASKED = 2  # as for a wrong option
NOT_ENDED = 3
Row = tuple[str, ...]

Name = Annotated[str, typer.Option("--name", help="Name of the change, such as pr-123; its branch is ci/NAME.")]
By = Annotated[str, typer.Option("--by", help="Who asks.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


class Answer(NamedTuple):
    """What is printed: `value` with --json, else `lines` and `rows`; and the exit code."""

    value: Any
    lines: Sequence[str]
    code: int
    rows: Sequence[Row] = ()


class Asked(NamedTuple):
    """What `up` shall do, as its options say it."""

    name: str
    select: Sequence[str]
    months: Sequence[str]
    base: str
    lease: str
    source: str
    recreate: bool
    quarantine: bool
    dagster: str
    summary: str
    by: str


class Change(Protocol):
    def __call__(self, name: str, *, by: str, dry_run: bool) -> Answer: ...


class Commands(NamedTuple):
    """What the commands do."""

    up: Callable[[Asked, Callable[[str], None]], Answer]
    merge: Change
    down: Change
    list: Callable[[], Answer]


def make_ci(commands: Callable[[], Commands]) -> typer.Typer:
    """The commands; `commands` is called when one of them runs."""
    app = typer.Typer(help="Try a change on a branch of its own; merge or drop it.", no_args_is_help=True)
    app.command("up")(_make_up(commands))
    app.command("merge")(_make_merge(commands))
    app.command("down")(_make_down(commands))
    app.command("list")(_make_list(commands))
    return app


def _make_up(commands: Callable[[], Commands]) -> Callable[..., None]:
    def up(
        name: Name,
        select: Annotated[
            list[str],
            typer.Option(help="Assets, in Dagster's syntax, with all downstream; repeatable.  [default: all]"),
        ] = [],  # noqa: B006
        month: Annotated[
            list[str], typer.Option(help="A month, as YYYY-MM; repeatable.  [default: the newest published]")
        ] = [],  # noqa: B006
        base: Annotated[str, typer.Option(help="The branch to open from and to merge into.  [default: main]")] = "",
        lease: Annotated[str, typer.Option(help="How long to keep the branch, as 7d, 12h or P7D.")] = "7d",
        source: Annotated[str, typer.Option(help="Folder of the deliveries; by default the usual ones.")] = "",
        recreate: Annotated[bool, typer.Option("--recreate", help="Begin anew at the head of the base.")] = False,
        quarantine: Annotated[
            bool, typer.Option("--quarantine", help="Quarantine the branch when it fails; it stays readable.")
        ] = False,
        dagster: Annotated[
            str, typer.Option(envvar="NESSIE_OPS_DAGSTER", help="Dagster's webserver; by default run in this process.")
        ] = "",
        summary: Annotated[str, typer.Option(help="Folder for summary.md and summary.json.")] = "ci-summary",
        by: By = "ci",
        as_json: AsJson = False,
    ) -> None:
        """Open ci/NAME, or find it again, load and check the selected assets on it, and write a summary."""
        asked = Asked(name, select, month, base, lease, source, recreate, quarantine, dagster, summary, by)
        _answer(lambda: commands().up(asked, _tell), as_json)

    return up


def _make_merge(commands: Callable[[], Commands]) -> Callable[..., None]:
    def merge(name: Name, dry_run: DryRun = False, by: By = "ci", as_json: AsJson = False) -> None:
        """Merge ci/NAME as one commit, once, if all blocking checks passed at exactly its head."""
        _answer(lambda: commands().merge(name, by=by, dry_run=dry_run), as_json)

    return merge


def _make_down(commands: Callable[[], Commands]) -> Callable[..., None]:
    def down(name: Name, dry_run: DryRun = False, by: By = "ci", as_json: AsJson = False) -> None:
        """Drop ci/NAME, also when it is gone already, and close what asks for its merge."""
        _answer(lambda: commands().down(name, by=by, dry_run=dry_run), as_json)

    return down


def _make_list(commands: Callable[[], Commands]) -> Callable[..., None]:
    def list_all(as_json: AsJson = False) -> None:
        """List the branches of changes, until when they are kept, and whether they can be merged."""
        _answer(lambda: commands().list(), as_json)

    return list_all


def _answer(ask: Callable[[], Answer], as_json: bool) -> None:
    try:
        answer = ask()
    except (NessieOpsError, OSError) as error:
        typer.echo(f"nessie-ops: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(NOT_ASKED) from error
    except KeyboardInterrupt:
        typer.echo("nessie-ops: interrupted", err=True)
        raise typer.Exit(NOT_ENDED) from None
    except Exception as error:  # of Dagster, or of ours: Python's own exit code would say that checks have failed
        traceback.print_exc()
        raise typer.Exit(NOT_ENDED) from error
    if as_json:
        print_json(answer.value)
    else:
        for line in answer.lines:
            typer.echo(line)
        print_rows(answer.rows)
    raise typer.Exit(answer.code)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
