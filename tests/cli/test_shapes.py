"""`--json` prints what is documented: no field more, and none less but those that are said to be left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nessie_ops.__main__ import make_app
from nessie_ops.cli.shapes import SHAPES, describe_shape
from nessie_ops.versioning import VersionStore
from tests.cli.test_help import COMMANDS

Print = Callable[..., Any]


def check(path: str, value: Any) -> None:
    """Compare what a command printed with its shape."""
    fields = SHAPES[path].split()
    is_list = fields[0] == "[]"
    assert isinstance(value, list) is is_list, path
    known = {field.removesuffix("?") for field in fields if field != "[]"}
    needed = {field for field in fields if field != "[]" and not field.endswith("?")}
    assert value != [], f"{path}: an empty list shows nothing"
    for row in value if is_list else [value]:
        assert needed <= set(row) <= known, (path, set(row) ^ known)


def test_every_command_that_prints_json_says_what() -> None:
    takes_json = {path for path, command in COMMANDS.items() if any("--json" in row.opts for row in command.params)}
    assert set(SHAPES) == takes_json
    assert describe_shape("tag list") == "With --json a list of objects with type, name, hash, properties (if any)."


@pytest.fixture
def show(tmp_path: Path, small: VersionStore, monkeypatch: pytest.MonkeyPatch) -> Print:
    """Runs a command on the catalog `small`, checks its JSON, and gives it."""
    monkeypatch.setenv("NESSIE_OPS_HOME", str(tmp_path))
    app = make_app()

    def run(path: str, *words: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [*path.split(), *words, "--json"])
        assert result.exit_code == code, (result.output, result.exception)
        value = json.loads(result.stdout)
        check(path, value)
        return value

    return run


def test_branches_and_tags(show: Print) -> None:
    for kind in ("branch", "tag"):
        show(f"{kind} create", "x")
        show(f"{kind} list")
        show(f"{kind} assign", "x", "--to", "v1")
        show(f"{kind} delete", "x")
    show("branch validate", "dev")
    show("branch reap", "--dry-run")


def test_commits_and_contents(show: Print, small: VersionStore) -> None:
    show("log", "--operations")
    show("contents")
    show("entries")
    show("diff", "v1", "dev")
    show("show", "n.t")
    show("transplant", "dev", "--dry-run")
    show("merge", "dev")
    show("revert", "main", "--dry-run")


def test_transactions(show: Print) -> None:
    ids = [show("txn begin")["id"] for _ in range(2)]
    show("txn list")
    show("txn show", ids[0])
    show("txn renew", ids[0])
    show("txn commit", ids[0])
    show("txn rollback", ids[1])
    show("txn reap")


def test_events_and_merge_requests(show: Print) -> None:
    show("events show")
    show("events add", "hook", "http://127.0.0.1:9/hook")
    show("events list")
    for verb in ("pause", "resume", "delete"):
        show(f"events {verb}", "hook")
    show("merge-request open", "dev", "--check", "sums")
    show("merge-request list")
    show("merge-request report", "1", "--passed", "sums")
    show("merge-request approve", "1")
    show("merge-request merge", "1")
    show("merge-request show", "1")


def test_the_store_and_what_is_collected(show: Print, tmp_path: Path) -> None:
    show("store info")
    show("store upgrade", "--dry-run")
    show("store check")
    show("store purge", "--dry-run")
    show("store export", str(tmp_path / "a.tar"))
    marked = show("gc mark-live", "-c", "1", "--store", f"sqlite:///{tmp_path}/catalog.db")
    show("gc list")
    show("gc show", "-l", marked["id"])
    show("gc delete", "-l", marked["id"])
    show("gc completion-script", "-O", str(tmp_path / "script"))
    show("gc show-licenses")
    show("gc show-sql-create-schema-script")
