"""The benchmark of the catalog runs against real servers and counts what it must; how fast they are is not tested."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.load import Answer, connections, request
from benchmarks.measures import SIZED, WRITING
from benchmarks.nessie import WrongAnswer, expect
from benchmarks.report import comparison, ratio

ROOT = Path(__file__).parents[2]


def test_it_measures_both_databases(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    short = ["--seconds", "0.1", "--warm", "0", "--rounds", "1", "--tables", "4200", "100", "--commits", "64"]
    command = [sys.executable, "-m", "benchmarks.catalog", "--quick", *short, "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert len(found["figures"]) == 13
    for figures in found["figures"].values():
        assert set(figures) == {"sqlite", "postgresql"}
        assert all(value > 0 for values in figures.values() for value in values)
    for side in found["subjects"].values():
        assert (side["conflicts"], side["commits"] > 64) == (0, True)
        assert side["reading cpu us"]["content"] > 0
        for row in side["by tables"].values():
            assert row["rows"] > row["levels"] >= 1, "every commit was new to the store"
        assert side["by commits"]["64"]["ratio"] > 0


@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_answers_are_read_however_they_arrive(cut: int) -> None:
    plain = b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a":"0"}'
    chunked = b'HTTP/1.1 409 Conflict\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{"a"\r\n5;x=y\r\n:"0"}\r\n0\r\n\r\n'
    empty = b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (plain, chunked, empty):
            await reader.readuntil(b"\r\n\r\n")
            for start in range(0, len(answer), cut):
                writer.write(answer[start : start + cut])
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    async def talk() -> list[Answer]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with connections(f"http://127.0.0.1:{port}") as (connection,):
                answers = [await connection.call(request("GET", "/")) for _ in range(3)]
                with pytest.raises(ConnectionError):
                    await connection.call(request("GET", "/"))
                return answers

    assert asyncio.run(talk()) == [(200, b'{"a":"0"}'), (409, b'{"a":"0"}'), (204, b"")]


def test_a_wrong_answer_is_no_result() -> None:
    with pytest.raises(WrongAnswer, match="503"):
        expect(Answer(503, b"busy"))


def test_ratios_say_how_many_times_as_good_as_the_peer() -> None:
    commits, merge = WRITING[0], SIZED[-1]
    assert ratio(commits, 300, 100) == ratio(merge, 10, 30) == 3
    shown = comparison({"c": commits}, {"c": {"postgresql": [299, 300, 900], "peer": [100]}})
    assert shown.splitlines()[1].replace(" ", "") == "c|/s|300|100|3.00|2"
