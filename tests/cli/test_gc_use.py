"""`nessie-ops gc` in the hands of people and scripts: progress, dry runs, what is refused, and what is told then."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nessie_ops.cli.app import run
from nessie_ops.cli.gc import parts
from nessie_ops.cli.progress import Progress
from nessie_ops.model import ReferenceType
from tests.cli.test_gc import SHARE, cli, lake, live_files, mark
from tests.gc.commands import APP, Commands
from tests.gc.disk import DiskLake

__all__ = ["cli", "lake"]  # fixtures


def state(cli: Commands, lake: DiskLake, ids: list[tuple[str, str]]) -> Any:
    """Files, references, and live sets with all that a later run uses of them."""
    files = {name: os.stat(name.removeprefix("file://")).st_mtime for name in lake.list_files()}
    return files, lake.versions.list_references(), [cli.json("show", "-l", id, options) for id, options in ids]


def test_a_dry_run_changes_nothing(cli: Commands, lake: DiskLake) -> None:
    """Of any command that deletes, on live sets in any status, however old they are."""
    fresh, failed, swept = mark(cli), mark(cli), mark(cli)
    cli.on("sweep", "-l", failed, code=1)
    cli.on("sweep", "-l", swept, "--defer-deletes", *SHARE)
    known = [(fresh, "-BCD"), (failed, "-C"), (swept, "-BCD")]  # a failed sweep lists anew, with other settings
    before = state(cli, lake, known)
    for words in (
        ("gc", "-c", "1", "--keep-live-sets", "PT0S", *SHARE),
        ("sweep", "-l", fresh, *SHARE),
        ("expire", "-l", failed, *SHARE),
        ("deferred-deletes", "-l", swept),
    ):
        assert "would be deleted" in cli.on(*words, "--dry-run").stdout
    assert "Would delete" in cli.run("delete", "-l", swept, "--dry-run").stdout
    assert state(cli, lake, known) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("gc", "-c", "1", *SHARE), ("commits marked", "metadata files read", "files listed", "files deleted")),
        (("why", "{orphan}", "-c", "1"), ("commits marked", "commits of the past read", "versions of the past")),
    ],
)
def test_progress_goes_to_standard_error(
    cli: Commands, lake: DiskLake, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: tuple[str, ...]
) -> None:
    monkeypatch.setattr("nessie_ops.cli.progress._EVERY_S", 0)
    orphan = f"{lake.root}/a/data/orphan.parquet"
    result = cli.on(*(word.format(orphan=orphan) for word in words), "--json")
    assert json.loads(result.stdout)
    assert [text for text in told if f"{text}" not in result.stderr] == []


class Interrupt(Progress):
    """A person who presses Ctrl-C at the first sign of work."""

    def __call__(self, what: str, count: int) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("phase", ["mark", "sweep"])
def test_what_is_interrupted_goes_on(cli: Commands, lake: DiskLake, phase: str) -> None:
    live, id = live_files(lake), mark(cli)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "Progress", Interrupt)
        words = ("mark", "-c", "1") if phase == "mark" else ("sweep", "-l", id, *SHARE)
        result = cli.on(*words, code=130)
    assert "goes on" in result.stderr and "Traceback" not in result.output
    if phase == "mark":
        id = cli.json("list")[0]["id"]
        assert f"--resume {id}" in result.stderr
        cli.on("mark", "--resume", id)
    cli.on("sweep", "-l", id, *SHARE)
    assert set(lake.list_files()) == live


def test_what_cannot_work_is_said_before_the_work(cli: Commands, lake: DiskLake, tmp_path: Path) -> None:
    id, file = mark(cli), tmp_path / "file"
    file.write_text("")
    before = set(lake.list_files())
    for words in (("gc",), ("sweep", "-l", id), ("deferred-deletes", "-l", id)):
        assert "report-dir" in cli.refuse(*words, "--report-dir", str(file / "folder"), *cli.common)
    assert "write-live-set-id-to" in cli.refuse("gc", "--write-live-set-id-to", str(file / "id"), *cli.common)
    for option in (("--grace-period", "PT1H"), ("--max-file-modification", "2999-01-01T00:00:00Z")):
        for words in (("gc",), ("sweep", "-l", id)):
            assert "--force" in cli.on(*words, *option, code=2).output
    assert "absolute" in cli.on("gc", "--allowed-location", "lake", code=2).output
    assert [row["id"] for row in cli.json("list")] == [id]
    assert set(lake.list_files()) == before


def test_lists_from_the_environment(cli: Commands, lake: DiskLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blank belongs to a value; an option goes before its variable."""
    lake.versions.create_reference(ReferenceType.BRANCH, "dev", lake.versions.get_reference("main").hash)
    monkeypatch.setenv("NESSIE_GC_CUTOFF", "dev=NONE,main=1")
    monkeypatch.setenv("NESSIE_GC_ALLOWED_LOCATION", f"{lake.root}/with blanks in it")
    found = cli.json("gc", "--dry-run")
    assert found["report"]["fates"] == {}
    assert list(found["report"]["settings"]["allowedLocations"]) == [f"{lake.root}/with blanks in it"]
    assert cli.json("gc", "--dry-run", "--allowed-location", lake.root)["report"]["fates"]["live"]["files"] == 24
    assert cli.json("gc", "-C", ".*=1", "--allowed-location", lake.root, *SHARE)["report"]["freedBytes"] > 0


def test_json_of_every_command(cli: Commands, tmp_path: Path) -> None:
    assert json.loads(cli.run("show-sql-create-schema-script", "--json").stdout)["statements"][0].startswith("CREATE")
    script = str(tmp_path / "script")
    assert json.loads(cli.run("completion-script", "-O", script, "--json").stdout) == {"file": script}
    assert json.loads(cli.run("create-sql-schema", "--jdbc-url", f"sqlite:///{tmp_path}/x.db", "--json").stdout)
    assert json.loads(cli.run("show-licenses", "--json").stdout)
    assert "nessie-ops" in cli.run("-V").stdout


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        status, kind, body = server.answer
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def answering(*answer: Any) -> Iterator[str]:
    """A server that says the same to everything."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.answer = answer  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/v2"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "kind", "body", "told"),
    [
        (401, "text/html", b"<html>", "HTTP status 401: this needs a user or token"),
        (401, "application/json", b'{"status":401,"reason":"no","message":"who?","errorCode":"UNKNOWN"}', "401: who?"),
        (403, "text/plain", b"no", "HTTP status 403"),
        (500, "text/html", b"<html>", "HTTP status 500. Try again."),
        (200, "text/html", b"<html>", "cannot be read"),
        (200, "application/json", b'{"a":1}', "cannot be read"),
        (302, "text/html", b"", "HTTP status 302"),
    ],
)
def test_servers_that_are_none(cli: Commands, status: int, kind: str, body: bytes, told: str) -> None:
    token = "nessie.authentication.type=BEARER,nessie.authentication.token=s3cret"
    with answering(status, kind, body) as uri:
        message = cli.refuse("mark", "-u", uri, "-o", token)
    assert told in message and "s3cret" not in message
    assert cli.json("list") == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("nessie.authentication.type=OAUTH2,nessie.authentication.oauth2.client-secret=s3cret", "BEARER"),
        ("nessie.authentication.type=AWS", "not supported"),
        ("nessie.authentication.type=BEARER", "nessie.authentication.token"),
        ("nessie.authentication.type=BEARER,nessie.authentication.token=s3cret\ns3cret", "without blanks"),
        ("nessie.authentication.type=BEARER,nessie.authentication.token=s3crét", "ASCII"),
        ("nessie.read-timeout=soon", "milliseconds"),
    ],
)
def test_authentication_that_cannot_work(cli: Commands, options: str, told: str) -> None:
    output = cli.run("mark", "-u", "http://127.0.0.1:1", "-o", options, code=2).output
    assert told in output and "s3c" not in output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("list", "--jdbc-url", "jdbc:postgresql://127.0.0.1:1/d", "--jdbc-user", "u"), "live-set database failed"),
        (("list", "--jdbc-url", "jdbc:mariadb://127.0.0.1:1/d?user=u&password=s3cret"), "live-set database failed"),
        (("mark", "-u", "http://127.0.0.1:1"), "Is the server running?"),
        (("show", "-l", "two\nlines"), "there is no live set two lines"),
        (("completion-script", "-O", "/proc/none/x"), "output-file"),
    ],
)
def test_an_error_is_one_line(
    cli: Commands,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.setenv("NESSIE_GC_JDBC_PASSWORD", "s3cret")
    monkeypatch.setattr(sys, "argv", ["nessie-ops", "gc", *words])
    with pytest.raises(SystemExit) as ended:
        run(APP)
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out, captured.err.count("\n")) == (1, "", 1)
    assert captured.err.startswith("nessie-ops: ")
    assert told in captured.err and "s3cret" not in captured.err
