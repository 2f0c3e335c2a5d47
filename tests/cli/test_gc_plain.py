"""`nessie-ops gc` over plain Iceberg catalogs, by the name that PyIceberg knows: a database's, and a REST server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.view.metadata import SQLViewRepresentation, ViewRepresentation, ViewVersion

from nessie_ops.errors import NessieOpsError
from tests.gc.commands import Commands
from tests.server.helpers import running_server

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})
SHARE = ("--max-deletion-share", "1")
OLD = timedelta(days=3).total_seconds()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("NESSIE_OPS_HOME", str(home))
    return home


@pytest.fixture
def cli(home: Path) -> Commands:
    return Commands()


@pytest.fixture
def of_database(tmp_path: Path) -> Iterator[dict[str, str]]:
    yield {"type": "sql", "uri": f"sqlite:///{tmp_path}/plain.db", "warehouse": f"file://{tmp_path}/lake"}


@pytest.fixture
def of_server(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Our own Iceberg REST catalog, for a client that takes it for any other."""
    with running_server(f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/lake") as uri:
        yield {"type": "rest", "uri": f"{uri}/iceberg/main"}


def fill(options: dict[str, str], lake: Path) -> tuple[Catalog, Path]:
    """Two tables of three snapshots, and a file of nobody's, all of them days old."""
    catalog = load_catalog("plain", **options)
    catalog.create_namespace("a")
    for name in ("a.t", "a.u"):
        table = catalog.create_table(name, ROWS.schema)
        for _ in range(3):
            table.append(ROWS)
    orphan = Path(table.location().removeprefix("file://")) / "data" / "orphan.parquet"
    orphan.write_bytes(b"x" * 100)
    age(lake)
    return catalog, orphan


def age(lake: Path) -> None:
    for path in lake.rglob("*"):
        os.utime(path, (path.stat().st_mtime - OLD,) * 2)


def files(lake: Path) -> set[Path]:
    return {path for path in lake.rglob("*") if path.is_file()}


def words(options: dict[str, str]) -> tuple[str, ...]:
    return ("--catalog", "plain", "--catalog-option", ",".join(f"{name}={value}" for name, value in options.items()))


@pytest.mark.parametrize("kind", ["of_database", "of_server"])
def test_a_whole_collection(
    cli: Commands, tmp_path: Path, request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, lake = request.getfixturevalue(kind), tmp_path / "lake"
    catalog, orphan = fill(options, lake)
    before, common = files(lake), words(options)
    assert cli.run("gc", *common, *SHARE, "--dry-run").stdout.endswith("1 files (100 bytes) would be deleted.\n")
    assert files(lake) == before
    id = cli.json("mark", *common, "-c", "NONE")["id"]
    source = cli.json("show", "-l", id, "-C")
    assert [row["reference"] for each in source["contents"] for row in each["references"]].count("a.t") >= 1
    assert "to be deleted" in cli.run("why", str(orphan), "-l", id, *common).stdout
    held = cli.json("why", next(str(path) for path in before if path.suffix == ".parquet" and path != orphan), *common)
    assert (held["fate"], held["reason"]["reference"][:2]) == ("live", "a.")
    assert "marked from iceberg:plain (" in cli.refuse("sweep", "-l", id, "--store", "sqlite:////nowhere")
    for name, value in options.items():  # as PyIceberg is configured: then the live set's name of it is enough
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PLAIN__{name.upper()}", value)
    reload_configuration(monkeypatch)
    cli.run("sweep", "-l", id, "--defer-deletes", *SHARE)
    assert cli.json("deferred-deletes", "-l", id)["files"] == {"deleted": 1}
    assert before - files(lake) == {orphan}
    for name in ("a.t", "a.u"):
        assert catalog.load_table(name).scan().to_arrow().num_rows == 6
    catalog.close()


def reload_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg reads its configuration once in a process."""
    import pyiceberg.catalog as module
    from pyiceberg.utils.config import Config

    monkeypatch.setattr(module, "_ENV_CONFIG", Config())


def test_a_table_that_changes_after_the_mark(cli: Commands, tmp_path: Path, of_database: dict[str, str]) -> None:
    """What it shows then is live, though no commit of the mark is known to the catalog any more."""
    lake = tmp_path / "lake"
    catalog, orphan = fill(of_database, lake)
    id = cli.json("mark", *words(of_database))["id"]
    before = files(lake)
    catalog.load_table("a.t").append(ROWS)
    catalog.drop_table("a.u")
    cli.run("sweep", "-l", id, *words(of_database), *SHARE)
    assert before - files(lake) == {orphan}
    assert catalog.load_table("a.t").scan().to_arrow().num_rows == 8
    catalog.close()


def test_what_cannot_be_read(cli: Commands, tmp_path: Path, of_database: dict[str, str]) -> None:
    lake = tmp_path / "lake"
    catalog, _ = fill(of_database, lake)
    location = Path(catalog.load_table("a.t").metadata_location.removeprefix("file://"))
    location.rename(location.with_suffix(".gone"))
    before = files(lake)
    assert "table a.t cannot be read" in cli.refuse("gc", *words(of_database), *SHARE)
    assert files(lake) == before
    catalog.close()


def test_a_view_among_a_tables_files(cli: Commands, tmp_path: Path, of_server: dict[str, str]) -> None:
    catalog, _ = fill(of_server, tmp_path / "lake")
    table = catalog.load_table("a.t")
    sql = SQLViewRepresentation(type="sql", sql="select 1", dialect="spark")
    version = ViewVersion.model_validate(
        {"version-id": 1, "schema-id": 0, "representations": [], "default-namespace": ["a"]}
    ).model_copy(update={"representations": [ViewRepresentation(sql)]})
    catalog.create_view("a.v", table.schema(), version, location=f"{table.location()}/views/v")
    assert "the view a.v lies in the folder of the table a.t" in cli.refuse("mark", *words(of_server))
    catalog.close()


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ("", 2, "give --catalog-option"),
        ("type=nonsense,token=s3cret-s3cret", 2, "is not a valid"),
        ("uri=ftp://h,token=s3cret-s3cret", 2, "ftp"),
        ("type=rest,uri=http://127.0.0.1:1,token=s3cret-s3cret", 1, "cannot be opened"),
        ("type=sql,uri=sqlite:////nowhere/x.db,password=s3cret-s3cret", 1, "cannot be opened"),
        ("type=sql,uri=postgresql+psycopg://u:s3cret-s3cret@127.0.0.1:1/d", 1, "cannot be opened"),
    ],
)
def test_catalogs_that_do_not_open(cli: Commands, options: str, code: int, text: str) -> None:
    more = ("--catalog-option", options) if options else ()
    result = cli.run("mark", "--catalog", "nowhere", *more, code=code)
    assert isinstance(result.exception, NessieOpsError | SystemExit)
    shown = " ".join((str(result.exception) + result.output).replace("│", " ").split())
    assert text in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize(
    "words",
    [
        ("--catalog", "x", "--uri", "http://127.0.0.1:1"),
        ("--catalog", "x", "--store", "sqlite://"),
        ("--catalog", "x", "--expire-snapshots"),
        ("--catalog-option", "uri=x", "--uri", "http://127.0.0.1:1"),
    ],
)
def test_options_that_do_not_go_together(cli: Commands, words: tuple[str, ...]) -> None:
    assert "--" in cli.run("gc", *words, code=2).output


def test_nothing_secret_is_remembered(cli: Commands, home: Path, tmp_path: Path, of_database: dict[str, str]) -> None:
    options = of_database | {"s3.access-key-id": "key", "s3.secret-access-key": "s3cret-s3cret", "token": "s3cret-s3"}
    catalog, _ = fill(options, tmp_path / "lake")
    catalog.close()
    shown = cli.run("gc", *words(options), *SHARE)
    assert "s3cret" not in shown.output
    kept = b"".join(path.read_bytes() for path in files(home))
    assert b"iceberg:plain (sqlite:///" in kept
    assert b"s3cret" not in kept
