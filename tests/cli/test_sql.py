"""`nessie-ops sql` as a process would run it: options, scripts, the shell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from typer.testing import CliRunner, Result

from nessie_ops.__main__ import make_app
from nessie_ops.cli.shell import KEYWORDS, Names, run_shell
from nessie_ops.cli.sql import show
from nessie_ops.client import NessieClient
from nessie_ops.sql import SqlSession
from nessie_ops.sql.help import SYNTAX, explain
from nessie_ops.sql.session import LOG
from nessie_ops.versioning import VersionStore
from tests.ports import free_port
from tests.server.helpers import running_server
from tests.versioning.helpers import head, update

Run = Callable[..., Result]


@pytest.fixture
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VersionStore]:
    monkeypatch.setenv("NESSIE_OPS_HOME", str(tmp_path))
    opened = VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")
    update(opened, "orders", 1)
    yield opened
    opened.close()


@pytest.fixture
def uri(versions: VersionStore, tmp_path: Path) -> Iterator[str]:
    with running_server(f"sqlite:///{tmp_path}/catalog.db") as found:
        yield found


@pytest.fixture(params=["server", "database"])
def cli(request: pytest.FixtureRequest, versions: VersionStore, monkeypatch: pytest.MonkeyPatch) -> Run:
    if request.param == "server":
        monkeypatch.setenv("NESSIE_OPS_URI", request.getfixturevalue("uri"))
    app = make_app()

    def invoke(*words: str, text: str | None = None, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["sql", *words], input=text)
        assert result.exit_code == code, result.output
        return result

    return invoke


def test_statements_of_options_and_files(cli: Run, versions: VersionStore, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("-- a tag\nCREATE TAG v1;\nSHOW LOG LIMIT 1\n")
    out = cli("-c", "CREATE BRANCH dev", "-c", "USE BRANCH dev", "-s", str(script)).stdout.splitlines()
    at = head(versions)
    assert out[0] == out[2] == "refType  name  hash"
    assert [line.split() for line in out[1:6:2]] == [["Branch", "dev", at], ["Branch", "dev", at], ["Tag", "v1", at]]
    assert out[6].split() == list(LOG)
    assert at in out[7]
    assert cli("-s", "-", text="SHOW REFERENCE v1").stdout == cli(text="SHOW REFERENCE v1;").stdout


def test_json_is_a_line_per_statement(cli: Run, versions: VersionStore) -> None:
    lines = cli("--json", "-c", "SHOW REFERENCE; SHOW LOG; SHOW DIFF; SHOW TABLE orders").stdout.splitlines()
    reference, log, diff, table = map(json.loads, lines)
    assert reference == [{"refType": "Branch", "name": "main", "hash": head(versions)}]
    assert log[0]["hash"] == head(versions) and log[0]["properties"] == {} and log[0]["authorTime"].endswith("Z")
    assert diff == []
    assert json.loads(table[0]["content"])["snapshotId"] == 1


def test_a_content_is_printed_as_it_is(cli: Run) -> None:
    assert json.loads(cli("--ref", "main", "-c", "SHOW TABLE orders").stdout)["metadataLocation"] == "m1"


def test_a_failure_ends_the_rest_or_not(cli: Run, versions: VersionStore) -> None:
    failing = "DROP TAG v1; CREATE BRANCH after"
    assert "v1" in str(cli("-c", failing, code=1).exception)
    assert [row.name for row in versions.list_references()] == ["main"]
    found = cli("-E", "-c", failing, code=1)
    assert "Named reference 'v1' not found" in found.stderr and "after" in found.stdout


def test_what_cannot_be_read_is_found_first(cli: Run, versions: VersionStore) -> None:
    found = cli("-c", "CREATE BRANCH dev", "-c", "CREATE\nBRANC b", code=1)
    assert re.fullmatch(r"nessie-ops: line 2, column 1: 'BRANC' is in the way; .*\nBRANC b\n\^\n", found.stderr)
    assert [row.name for row in versions.list_references()] == ["main"]
    assert "no statement" in str(cli("-c", " ; ", code=1).exception)
    assert "nowhere" in str(cli("--ref", "nowhere", "-c", "SHOW LOG", code=1).exception)


def test_a_script_that_is_no_text(cli: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_bytes(b"SHOW LOG \xff")
    assert "is not text in UTF-8" in str(cli("-s", str(script), code=1).exception)
    assert isinstance(cli("-s", str(tmp_path / "absent"), code=1).exception, FileNotFoundError)


def test_a_transaction_ends_with_the_command(cli: Run, versions: VersionStore) -> None:
    found = cli("-c", "START TRANSACTION; SHOW REFERENCE; DROP TABLE nowhere", code=1)
    assert "txn/" in found.stdout
    assert versions.list_references(prefix="txn/") == []


def shell(uri: str, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What a shell prints when a person types a text."""

    @contextmanager
    def open_client(given: str, store: str) -> Iterator[NessieClient]:
        with NessieClient(given) as client:
            yield client

    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()), open_client(uri, "") as own:
        pipe.send_text(text)
        run_shell(SqlSession(own), open_client, lambda result: show(result, as_json=False))
    said = capsys.readouterr()
    return said.out, said.err


def test_the_shell(uri: str, versions: VersionStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, error = shell(
        uri, "create branch dev;\nUSE BRANCH dev\nOOPS\nshow reference\nhelp merge\nEXIT\nSHOW LOG\n", capsys
    )
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("Branch")] == [["Branch", "dev"]] * 3
    assert "ON CONFLICT" in out and "SHOW LOG" not in out
    assert "line 1, column 1: 'OOPS' is in the way" in error
    history = (tmp_path / "sql_history").read_text()
    assert "+create branch dev;" in history and "SHOW LOG" not in history
    assert shell(uri, "SHOW REFERENCE nowhere\n\x04", capsys)[1] == "Named reference 'nowhere' not found\n"


def test_a_transaction_ends_with_the_shell(
    uri: str, versions: VersionStore, capsys: pytest.CaptureFixture[str]
) -> None:
    out, error = shell(uri, f"START TRANSACTION\nCONNECT TO {uri}\nSHOW REFERENCE\nEXIT\n", capsys)
    assert out.count("txn/") == 2 and "COMMIT or ROLLBACK it first" in error
    assert versions.list_references(prefix="txn/") == []


def test_the_shell_connects_elsewhere(uri: str, versions: VersionStore, capsys: pytest.CaptureFixture[str]) -> None:
    with running_server() as other, NessieClient(other) as client:
        client.create_reference("BRANCH", "over/there", client.get_reference("main").hash)  # type: ignore[arg-type]
        out, error = shell(uri, f"CONNECT TO {other} ON over/there\nSHOW REFERENCE\nEXIT\n", capsys)
    assert "over/there" in out and not error


def test_completion(uri: str, versions: VersionStore) -> None:
    with NessieClient(uri) as client:
        names = Names(SqlSession(client))

        def complete(text: str) -> list[str]:
            return [found.text for found in names.get_completions(Document(text), CompleteEvent())]

        assert complete("SHOW ref") == ["REFERENCE", "REFERENCES"]
        assert complete("USE BRANCH ma") == ["main"]
        assert complete("SHOW TABLE ord") == ["orders"]
        assert complete("SHOW ") == []
        with NessieClient(f"http://127.0.0.1:{free_port()}") as nobody:
            names.session.client = nobody
            assert complete("USE ma") == []  # without a server a prompt goes on
            assert complete("US") == ["USE"]


def test_help_has_the_statements_of_the_grammar() -> None:
    assert explain("merge") == SYNTAX["MERGE BRANCH"]
    assert explain("nonsense") == explain() and all(text in explain() for text in SYNTAX.values())
    grammar = (Path(__file__).parents[2] / "nessie_ops/sql/grammar.lark").read_text()
    keywords = set(re.findall(r"^_([A-Z]+)\.2:", grammar, re.MULTILINE))
    keywords |= {
        word for words in re.findall(r"^[A-Z_]+\.2: /\(([A-Z|]+)\)", grammar, re.MULTILINE) for word in words.split("|")
    }
    assert keywords <= set(KEYWORDS)
