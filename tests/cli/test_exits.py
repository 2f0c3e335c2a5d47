"""How a process ends: exit codes, one line for what went wrong, and nothing for a reader that has enough."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nessie_ops import errors
from nessie_ops.__main__ import make_app
from nessie_ops.cli import run
from nessie_ops.cli.exits import code_of
from nessie_ops.versioning import VersionStore
from tests.ports import free_port
from tests.server.helpers import running_server
from tests.versioning.helpers import update

ROOT = Path(__file__).parents[2]


Answer = tuple[int, str, str]
"""Exit code, standard output, standard error."""


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs a command as the process would."""

    def answer(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["nessie-ops", *words])
        with pytest.raises(SystemExit) as stopped:
            run(make_app())
        return int(stopped.value.code or 0), *capsys.readouterr()

    return answer


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("log", "mian", "--store", "{store}"), 4, "Did you mean 'main'?"),
        (("branch", "create", "main", "--store", "{store}"), 3, "already exists"),
        (("log", "--uri", "http://127.0.0.1:{port}"), 5, "Is the server running?"),
        (("sql", "-c", "SHOW LOG ON mian", "--store", "{store}"), 4, "Did you mean 'main'?"),
        (("log", "--uri", "127.0.0.1"), 2, "is not an http or https URL"),
        (("log", "--store", "nonsense"), 2, "is not a SQLAlchemy URL"),
        (("log", "--store", "sqlite:///{text}"), 1, "is not a database"),
    ],
)
def test_what_goes_wrong_is_one_line(
    tmp_path: Path, small: VersionStore, ended: Callable[..., Answer], words: tuple[str, ...], code: int, told: str
) -> None:
    (tmp_path / "text").write_text("no database, but long enough to be looked at as one " * 100)
    places = {"store": f"sqlite:///{tmp_path}/catalog.db", "port": free_port(), "text": tmp_path / "text"}
    found, out, err = ended(*(word.format(**places) for word in words))
    assert (found, out, err.count("\n")) == (code, "", 1) and told in err, err


def test_a_server_that_is_another_one(ended: Callable[..., Answer]) -> None:
    with running_server() as uri:
        code, out, err = ended("log", "--uri", f"{uri}/elsewhere")
    assert (code, out, err.count("\n")) == (2, "", 1)


def start(*words: str, **options: Any) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen([sys.executable, "-m", "nessie_ops", *words], cwd=ROOT, **given)


def test_a_reader_that_has_enough(tmp_path: Path, small: VersionStore) -> None:
    process = start("log", "--operations", "--store", f"sqlite:///{tmp_path}/catalog.db")
    assert process.stdout and process.stderr
    process.stdout.close()
    assert (process.stderr.read(), process.wait(60)) == ("", 141)
    process.stderr.close()


def test_progress_is_a_bar_on_a_terminal_and_json_stays_alone(tmp_path: Path, small: VersionStore) -> None:
    terminal, its_other_end = os.openpty()
    words = ("store", "check", "--json", "--store", f"sqlite:///{tmp_path}/catalog.db")
    process = start(*words, stderr=its_other_end)
    os.close(its_other_end)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)) == (0, {"faults": []})
    shown = b""
    with suppress(OSError):  # how the end of a terminal is told
        while some := os.read(terminal, 4096):
            shown += some
    os.close(terminal)
    assert b"contents" in shown and "━".encode() in shown


def test_ctrl_c(
    tmp_path: Path, small: VersionStore, ended: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Person(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            signal.raise_signal(signal.SIGINT)
            return super().read(size)

    monkeypatch.setattr(sys, "stdin", Person("SHOW LOG"))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        found = ended("sql", "-s", "-", "--store", f"sqlite:///{tmp_path}/catalog.db")
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == (130, "", "nessie-ops: interrupted\n")


@pytest.mark.parametrize(
    ("error", "command", "code"),
    [
        (errors.Forbidden("x"), "merge", 1),
        (errors.StoreUnavailable("x"), "gc", 1),
        (errors.OutcomeUnknown("x"), "branch", 6),
        (errors.ReferenceConflict("x"), "run", 1),
        (errors.TransactionConflict("x", (), ()), "txn", 3),
    ],
)
def test_codes(error: errors.NessieOpsError, command: str, code: int) -> None:
    assert code_of(error, command) == code


def complete(line: str, **environment: str) -> list[str]:
    """What bash is offered at the end of a line."""
    given = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_NESSIE_OPS_COMPLETE": "complete_bash"}
    done = CliRunner().invoke(make_app(), [], env={**given, **environment}, prog_name="nessie-ops")
    assert done.stderr == ""
    return done.stdout.split()


def test_the_shell_completes_commands_and_names(tmp_path: Path, small: VersionStore) -> None:
    store = f"sqlite:///{tmp_path}/catalog.db"
    update(small, "u", 3)
    assert complete("nessie-ops me") == ["merge", "merge-request"]
    assert complete("nessie-ops log d", NESSIE_OPS_STORE=store) == ["dev"]
    assert complete(f"nessie-ops merge --store {store} --branch ma") == ["main"]
    with running_server(store) as uri:
        assert complete("nessie-ops tag delete v", NESSIE_OPS_URI=uri) == ["v1"]
    assert complete("nessie-ops log d", NESSIE_OPS_URI=f"http://127.0.0.1:{free_port()}") == []
