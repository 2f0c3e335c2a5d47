"""The command line, as a process would run it, over a server and over a local database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from nessie_ops.cli import build_app, run
from nessie_ops.errors import NessieOpsError
from nessie_ops.model import NO_ANCESTOR, QUARANTINED, CommitHash, Delete, NewCommit, Put, ReferenceType
from nessie_ops.versioning import VersionStore
from tests.server.helpers import running_server
from tests.versioning.helpers import key, namespace, table

Run = Callable[..., Result]


def no_server(**options: object) -> None:
    raise AssertionError(options)


@pytest.fixture
def head(tmp_path: Path) -> CommitHash:
    """The head of a small catalog in `catalog.db`, which a `run/7` in quarantine has, too."""
    with closing(VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")) as versions:
        first = [Put(key("n"), namespace("n")), Put(key("n.t"), table(1)), Put(key("z"), table(1))]
        at = versions.commit("main", NO_ANCESTOR, NewCommit(message="first\nmore"), first).target_branch.hash
        meta = NewCommit(message="second", authors=("me", "you"))
        at = versions.commit("main", at, meta, [Delete(key("z")), Put(key("y"), table(2))]).target_branch.hash
        versions.create_reference(ReferenceType.BRANCH, "run/7", at, properties={QUARANTINED: "nulls"})
        versions.create_reference(ReferenceType.TAG, "v1", at)
    return at


@pytest.fixture(params=["server", "database"])
def cli(request: pytest.FixtureRequest, tmp_path: Path, head: CommitHash, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on the catalog, through a server or on the database itself."""
    store = f"sqlite:///{tmp_path}/catalog.db"
    if request.param == "server":
        server = running_server(store)
        monkeypatch.setenv("NESSIE_OPS_URI", server.__enter__())
        request.addfinalizer(lambda: server.__exit__(None, None, None))
    else:
        monkeypatch.setenv("NESSIE_OPS_HOME", str(tmp_path))
    app = build_app(no_server)

    def invoke(*words: str, ok: bool = True) -> Result:
        result = CliRunner().invoke(app, words)
        assert (result.exit_code == 0) is ok, result.output
        return result

    return invoke


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)


def test_branches(cli: Run, head: CommitHash) -> None:
    assert cli("branch", "list").stdout.splitlines() == [
        f"main   {head[:16]}",
        f"run/7  {head[:16]}  quarantined: nulls",
    ]
    assert cli("branch", "create", "a/b", "--from", "main~1").stdout.startswith("created a/b at ")
    made = as_json(cli("branch", "create", "c", "--json"))
    assert made == {"type": "BRANCH", "name": "c", "hash": head}
    assert [row["name"] for row in as_json(cli("branch", "list", "--json", "--prefix", "a/"))] == ["a/b"]
    refused = cli("branch", "delete", "c", "--expected", NO_ANCESTOR, ok=False)
    assert isinstance(refused.exception, NessieOpsError)
    assert cli("branch", "delete", "c", "--expected", head).stdout == f"deleted c, which was at {head}\n"
    assert as_json(cli("branch", "delete", "a/b", "--json"))["name"] == "a/b"
    assert len(cli("branch", "list").stdout.splitlines()) == 2


def test_a_branch_is_validated_on_demand(cli: Run) -> None:
    cli("branch", "create", "a")
    assert cli("branch", "validate", "a").stdout == "a is validated for main\n"
    assert as_json(cli("branch", "validate", "a", "--into", "run/7", "--json"))["properties"] == {"validate": "run/7"}
    assert cli("branch", "validate", "a", "--off").stdout == "a is no longer validated\n"
    assert "properties" not in as_json(cli("branch", "list", "--json", "--prefix", "a"))[0]
    for words in (("main",), ("v1",), ("a", "--into", "nowhere")):
        assert isinstance(cli("branch", "validate", *words, ok=False).exception, NessieOpsError)


def test_log(cli: Run, head: CommitHash) -> None:
    first, second = reversed(cli("log").stdout.splitlines())
    assert second.startswith(head[:16]) and second.endswith("me, you  second")
    assert first.endswith("first")
    assert len(as_json(cli("log", "run/7", "--json", "-n", "1"))) == 1
    assert as_json(cli("log", "main~1", "--json"))[0]["commitMeta"]["message"] == "first\nmore"


def test_diff(cli: Run) -> None:
    assert cli("diff", "main~1", "main").stdout.splitlines() == ["+  y  ICEBERG_TABLE", "-  z  ICEBERG_TABLE"]
    assert cli("diff", "main~1").stdout == cli("diff", "main~1", "v1").stdout
    assert cli("diff", "main", "run/7").stdout == ""
    (row,) = as_json(cli("diff", f"@{NO_ANCESTOR}", "main", "--json", "--limit", "1"))
    assert row["from"] is None and row["to"]["type"] == "NAMESPACE"


def test_entries(cli: Run) -> None:
    lines = [line.split()[:2] for line in cli("entries").stdout.splitlines()]
    assert lines == [["n", "NAMESPACE"], ["n.t", "ICEBERG_TABLE"], ["y", "ICEBERG_TABLE"]]
    assert [row["name"]["elements"] for row in as_json(cli("entries", "v1~1", "--json"))] == [["n"], ["n", "t"], ["z"]]
    assert cli("entries", f"@{NO_ANCESTOR}").stdout == ""


def test_errors_are_ours(cli: Run) -> None:
    for words in (("log", "nope"), ("diff", "main", "~1"), ("branch", "create", "a b"), ("entries", "a..b")):
        assert isinstance(cli(*words, ok=False).exception, NessieOpsError)


def test_reading_creates_no_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESSIE_OPS_HOME", str(tmp_path / "none"))
    result = CliRunner().invoke(build_app(no_server), ["entries"])
    assert isinstance(result.exception, NessieOpsError) and "--uri" in result.exception.message
    assert not (tmp_path / "none").exists()


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for words in (["entries"], ["branch", "create", "x"]):
        result = CliRunner().invoke(build_app(no_server), [*words, "--store", f"sqlite:///{tmp_path}/typo/catalog.db"])
        assert isinstance(result.exception, NessieOpsError) and "typo" in result.exception.message
    assert not (tmp_path / "typo").exists()


def test_options_go_before_the_environment(tmp_path: Path, head: CommitHash, monkeypatch: pytest.MonkeyPatch) -> None:
    store, app = f"sqlite:///{tmp_path}/catalog.db", build_app(no_server)
    monkeypatch.setenv("NESSIE_OPS_URI", "http://127.0.0.1:9")  # nobody answers there
    assert CliRunner().invoke(app, ["branch", "create", "here", "--store", store]).exit_code == 0
    monkeypatch.setenv("NESSIE_OPS_STORE", store)
    refused = CliRunner().invoke(app, ["log"]).exception
    assert isinstance(refused, NessieOpsError) and "127.0.0.1:9" in refused.message, "the server is asked first"
    words = ["log", "--store", "sqlite:///x.db", "--uri", "http://127.0.0.1:1"]
    both = CliRunner().invoke(app, words).exception
    assert isinstance(both, NessieOpsError) and "not both" in both.message


def test_serve_passes_on_what_is_given() -> None:
    seen: list[dict[str, object]] = []

    def serve(**options: object) -> None:
        seen.append(options)

    words = ["serve", "--host", "0.0.0.0", "--port", "1", "--store", "s", "--warehouse", "w", "--workers", "3"]
    words += ["--allowed-location", "s3://a", "--allowed-location", "/b"]
    words += ["--s3-endpoint", "http://e", "--s3-region", "r", "--s3-path-style"]
    words += ["--s3-role-arn", "a", "--s3-sts-endpoint", "http://f", "--s3-remote-signing"]
    CliRunner().invoke(build_app(serve), words, catch_exceptions=False)
    CliRunner().invoke(build_app(serve), ["serve"], catch_exceptions=False)
    s3 = {"endpoint": "http://e", "region": "r", "path_style": "true"}
    s3 |= {"role_arn": "a", "sts_endpoint": "http://f", "remote_signing": "true"}
    given = {"host": "0.0.0.0", "port": 1, "store": "s", "warehouse": "w", "workers": 3, "s3": s3}
    nothing = {"host": None, "port": None, "store": None, "warehouse": None, "workers": 1, "s3": dict.fromkeys(s3, "")}
    assert seen == [{**given, "allowed_locations": ["s3://a", "/b"]}, {**nothing, "allowed_locations": ()}]


def test_an_error_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(**_: object) -> None:
        raise NessieOpsError("what to do")

    monkeypatch.setattr(sys, "argv", ["nessie-ops", "serve"])
    with pytest.raises(SystemExit) as stopped:
        run(build_app(serve))
    assert stopped.value.code == 1 and capsys.readouterr() == ("", "nessie-ops: what to do\n")


def commands(group: Any, *path: str) -> list[tuple[str, Any]]:
    found = [(" ".join(path), group)]
    for name, command in getattr(group, "commands", {}).items():
        found += commands(command, *path, name)
    return found


def test_every_command_and_option_has_help() -> None:
    for name, command in commands(typer.main.get_command(build_app(no_server)), "nessie-ops"):
        assert command.help, name
        for parameter in command.params:
            assert parameter.help, f"{name} {parameter.name}"


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "nessie_ops", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2])
    assert done.returncode == 0 and done.stdout.startswith("nessie-ops") and done.stderr == ""


def test_a_command_without_a_server_loads_no_web_framework(tmp_path: Path, head: CommitHash) -> None:
    code = (
        "import sys; sys.argv[1:] = ['branch', 'list', '--store', sys.argv[1]]\n"
        "from nessie_ops.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code\n"
        "assert not {'litestar', 'uvicorn', 'pyspark', 'dagster'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/catalog.db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


def test_commands_that_know_of_runs_say_nothing_of_libraries(tmp_path: Path, head: CommitHash) -> None:
    with running_server(f"sqlite:///{tmp_path}/catalog.db") as uri:
        command = [sys.executable, "-m", "nessie_ops", "ci", "list"]
        environment = {**os.environ, "NESSIE_OPS_HOME": str(tmp_path), "NESSIE_OPS_URI": uri}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
