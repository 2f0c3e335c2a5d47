"""`nessie-ops gc` over a small lake on a local disk: nessie-gc's names, options, output and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nessie_ops.model import CommitHash, GarbageCollectorConfig, ReferenceType
from nessie_ops.model.repository import ReferenceCutoffPolicy
from tests.gc.commands import Commands, live_sets_at
from tests.gc.disk import DiskLake, small_lake
from tests.server.helpers import running_server

SHARE = ("--max-deletion-share", "1")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DiskLake]:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("NESSIE_OPS_HOME", str(home))
    with small_lake(tmp_path) as lake:
        yield lake


@pytest.fixture
def cli(lake: DiskLake) -> Commands:
    return Commands("--store", lake.store)


def live_files(lake: DiskLake) -> set[str]:
    """What the heads of both tables need."""
    files: set[str] = set()
    for key in ("a", "b"):
        content, state = lake.content("main", key), lake.state("main", key)
        assert content and state
        files |= {content.metadata_location, *state.log}.union(*(snapshot.files for snapshot in state.snapshots))
    return files


def mark(cli: Commands, *options: str) -> str:
    return str(cli.json("mark-live", "-c", "1", *options)["id"])


def test_mark_and_sweep(cli: Commands, lake: DiskLake, tmp_path: Path) -> None:
    before, live = set(lake.list_files()), live_files(lake)
    file = tmp_path / "id"
    marked = cli.on("mark", "-C", "main=1,dev.*=P30D", "-c", "NONE", "--write-live-set-id-to", str(file))
    id = file.read_text()
    assert marked.stdout.startswith("Finished Nessie-GC identify phase finished with status IDENTIFY_SUCCESS after PT")
    assert marked.stdout.endswith(f"S, live-content-set ID is {id}.\n")
    swept = cli.on("expire", "-L", str(file), *SHARE)
    assert swept.stdout.startswith(
        f"Nessie-GC sweep phase for live-content-set {id} finished with status EXPIRY_SUCCESS after PT"
    )
    assert swept.stdout.endswith(f"S, deleted {len(before - live)} files, 0 files could not be deleted.\n")
    assert set(lake.list_files()) == live
    assert "EXPIRY_SUCCESS" in cli.refuse("sweep", "-l", id, *cli.common)


def test_gc_of_a_server_in_memory(cli: Commands, lake: DiskLake) -> None:
    live = live_files(lake)
    with running_server(lake.store) as uri:
        words = ("gc", "-u", f"{uri}/api/v2", "-c", "10", "-C", "main=1", "--inmemory", *SHARE)
        shown = cli.run(*words, "-o", "nessie.authentication.type=BEARER,nessie.authentication.token=x")
        assert shown.stdout.count("\n") == 2
        assert set(lake.list_files()) == live
        id = json.loads(cli.run("mark", "-u", uri, "--json").stdout)["id"]
        assert "marked from http" in cli.refuse("sweep", "-l", id, *cli.common)
        cli.run("sweep", "-l", id)  # the live set knows the server
    assert cli.json("list")[0]["status"] == "EXPIRY_SUCCESS"


def test_caps_hold_however_often_the_sweep_is_repeated(cli: Commands, lake: DiskLake) -> None:
    before, id = set(lake.list_files()), mark(cli)
    for _ in range(2):
        found = cli.json("sweep", "-l", id, code=1)
        assert found["report"]["fates"]["dead"]["files"] == 15
        assert "--force" in found["liveSet"]["error"]
        assert found["liveSet"]["status"] == "EXPIRY_FAILED"
        assert set(lake.list_files()) == before
    cli.on("sweep", "-l", id, "--max-deletions", "14", *SHARE, code=1)
    assert set(lake.list_files()) == before
    cli.on("sweep", "-l", id, "--force")
    assert set(lake.list_files()) == live_files(lake)


def test_a_dry_run_leaves_nothing_behind(cli: Commands, lake: DiskLake) -> None:
    before, id = set(lake.list_files()), mark(cli)
    found = cli.json("sweep", "-l", id, "--dry-run", "--force", "--grace-period", "PT0S")
    assert found["report"]["states"] == {
        "pending": {"files": 15, "sizeBytes": found["report"]["fates"]["dead"]["sizeBytes"]}
    }
    shown = cli.json("show", "-l", id, "-D")
    assert (shown["status"], shown["expiryStarted"], shown["deferredDeletes"]) == ("IDENTIFY_SUCCESS", None, [])
    cli.on("sweep", "-l", id, *SHARE, "--grace-period", "P99D")  # everything is younger
    assert set(lake.list_files()) == before


def test_deferred_deletes(cli: Commands, lake: DiskLake) -> None:
    before, live, id = set(lake.list_files()), live_files(lake), mark(cli)
    assert "EXPIRY_SUCCESS" in cli.refuse("list-deferred", "-l", id)
    assert ", deleted 15 files, 0 files" in cli.on("sweep", "-l", id, "--defer-deletes", *SHARE).stdout
    assert set(lake.list_files()) == before
    rows = [line.split() for line in cli.run("list-deferred", "-l", id).stdout.splitlines()]
    assert rows[-1] == ["End", "of", "listing."]
    dead = sorted(before - live)
    assert sorted(base + path for _, base, path in rows[-16:-1]) == dead
    lake.versions.create_reference(ReferenceType.BRANCH, "old", first_commit(lake))
    reached = {name for name in dead if name.startswith(f"{lake.root}/a/") and holds_first(lake, name)}
    changed, gone = (name for name in dead if "/b/data/" in name)
    Path(changed.removeprefix("file://")).write_bytes(b"written anew")
    Path(gone.removeprefix("file://")).unlink()
    assert "Would delete" in cli.on("deferred-deletes", "-l", id, "--dry-run").stdout
    assert set(lake.list_files()) == before - {gone}
    done = cli.on("deferred-deletes", "-l", id)
    deleted = len(dead) - len(reached) - 2
    assert f"Deferred deletion finished: {deleted} files deleted, 0 delete failures." in done.stdout
    assert set(lake.list_files()) == live | reached | {changed}
    again = cli.json("deferred-deletes", "-l", id)
    assert (again["files"], cli.json("show", "-l", id, "-D")["deferredDeletes"]) == ({}, [])


def first_commit(lake: DiskLake) -> CommitHash:
    return lake.versions.list_log(lake.versions.get_reference("main").hash, limit=99)[-1].commit_meta.hash


def holds_first(lake: DiskLake, name: str) -> bool:
    """Whether the first version of the first table needs a file."""
    first = min(
        (location for location in lake.needs if "/a/" in location),
        key=lambda name: int(name.split("/")[-1].split(".")[0]),
    )
    return name == first or any(name in snapshot.files for snapshot in lake.needs[first].snapshots)


def test_what_cannot_be_deleted_is_told_and_tried_again(cli: Commands, lake: DiskLake) -> None:
    id = mark(cli)
    cli.on("sweep", "-l", id, "--defer-deletes", *SHARE)
    orphan = Path(lake.root.removeprefix("file://")) / "a/data/orphan.parquet"
    orphan.unlink()
    orphan.mkdir()  # unlinking fails, whoever runs the tests
    os.utime(orphan, (0, 0))
    found = cli.json("deferred-deletes", "-l", id)
    assert found["files"] == {"deleted": 14, "kept": 1}
    assert (orphan.is_dir(), found["freedBytes"] > 0) == (True, True)


def test_a_commit_between_mark_and_sweep_keeps_what_it_reaches(cli: Commands, lake: DiskLake) -> None:
    before, live, id = set(lake.list_files()), live_files(lake), mark(cli)
    lake.versions.create_reference(ReferenceType.BRANCH, "old", first_commit(lake))
    reached = {name for name in before if holds_first(lake, name)}
    found = cli.json("sweep", "-l", id, *SHARE)
    assert found["report"]["states"]["kept"]["files"] == len(reached)
    assert set(lake.list_files()) == live | reached


def test_a_broken_table_is_named_and_the_rest_goes_on(cli: Commands, lake: DiskLake) -> None:
    content = lake.content("main", "b")
    assert content
    Path(content.metadata_location.removeprefix("file://")).write_bytes(b"{")
    before, live = set(lake.list_files()), live_files(lake)
    result = cli.on("gc", "-c", "1", *SHARE, code=1)
    assert "status EXPIRY_SUCCESS" in result.stdout
    assert f"{content.metadata_location}: DamagedFile" in result.stderr
    assert set(lake.list_files()) == live | {name for name in before if "/b/" in name}


def test_only_a_head_makes_missing_metadata_a_broken_table(cli: Commands, lake: DiskLake) -> None:
    states = [lake.needs[name] for name in sorted(lake.needs) if "/b/" in name]
    lists = sorted({each.list_location for state in states for each in state.snapshots})
    head = lake.state("main", "b")
    assert head
    (needed,) = (each.list_location for each in head.snapshots)
    old = next(name for name in lists if name != needed)
    Path(old.removeprefix("file://")).unlink()
    assert "1 metadata objects are gone" in cli.on("gc", "-c", "NONE", "--dry-run").stderr
    Path(needed.removeprefix("file://")).unlink()
    before = set(lake.list_files())
    result = cli.on("gc", "-c", "NONE", *SHARE, code=1)
    assert f"{needed}: a head needs it" in result.stderr
    assert before - set(lake.list_files()) == {f"{lake.root}/a/data/orphan.parquet"}


def test_policies_of_the_repository(cli: Commands, lake: DiskLake) -> None:
    rules = (ReferenceCutoffPolicy(reference_name_pattern="main", policy="1"),)
    config = GarbageCollectorConfig(per_ref_cutoff_policies=rules, new_files_grace_period="P2D")
    lake.versions.update_repository_config(config)
    live = live_files(lake)
    assert cli.json("gc", *SHARE)["report"]["settings"]["gracePeriod"] == "PT48H"
    assert set(lake.list_files()) == live


def test_allowed_locations(cli: Commands, lake: DiskLake) -> None:
    before = set(lake.list_files())
    result = cli.on("gc", "-c", "1", "--allowed-location", f"{lake.root}/a", *SHARE)
    assert "lies outside the allowed locations" in result.stderr
    assert {name for name in before - set(lake.list_files()) if "/a/" not in name} == set()
    assert len(before - set(lake.list_files())) == 8


@pytest.mark.parametrize("kind", ["--exact", "--bloom"])
def test_both_live_tests(cli: Commands, lake: DiskLake, kind: str) -> None:
    live = live_files(lake)
    cli.on("gc", "-c", "1", kind, "--expected-file-count", "3", "--fpp", "1e-9", "--allowed-fpp", "1e-8", *SHARE)
    assert set(lake.list_files()) == live


def test_live_sets_in_every_database(cli: Commands, lake: DiskLake, database_url: str) -> None:
    there = live_sets_at(database_url)
    assert "create-sql-schema" in cli.refuse("list", *there)
    assert cli.run("create-sql-schema", *there).stdout == "Schema created.\n"
    assert "exist already" in cli.refuse("create-sql-schema", *there)
    cli.run("create-sql-schema", "--jdbc-schema", "CREATE_IF_NOT_EXISTS", *there)
    live, id = live_files(lake), mark(cli, *there)
    cli.on("sweep", "-l", id, "--defer-deletes", *SHARE, *there)
    assert cli.json("deferred-deletes", "-l", id, *there)["files"] == {"deleted": 15}
    assert set(lake.list_files()) == live
    shown = cli.run("show", "-l", id, "-BC", *there).stdout
    assert f"    Base location: {lake.root}/a/" in shown
    assert shown.count("ICEBERG_TABLE") == 2
    cli.run("delete", "-l", id, *there)
    assert "there is no live set" in cli.refuse("delete", "-l", id, *there)


def test_tables_of_live_sets(cli: Commands, lake: DiskLake) -> None:
    ids = [mark(cli), mark(cli)]
    lines = cli.run("list", "--time-zone", "America/New_York").stdout.splitlines()
    assert lines[0] == "Timestamps shown in America/New_York"
    assert [lines[1].index(name) for name in ("ID", "Status", "Created", "Identify", "Error")] == [0, 37, 60, 86, 164]
    assert [line.split()[0] for line in lines[2:]] == ids[::-1]
    shown = dict(line.split(None, 1) for line in cli.run("show", "-l", ids[0]).stdout.splitlines()[2:4])
    assert shown == {"ID": ids[0], "Status": "IDENTIFY_SUCCESS"}
    assert "Would delete" in cli.run("delete", "-l", ids[0], "--dry-run").stdout
    assert f"{ids[0]} successfully deleted." in cli.run("delete", "-l", ids[0]).stdout
    assert [row["id"] for row in cli.json("list")] == [ids[1]]


@pytest.mark.parametrize(
    "words",
    [
        ("mark", "--inmemory"),
        ("list", "--inmemory"),
        ("gc", "--inmemory", "--jdbc-url", "jdbc:postgresql://h/d"),
        ("gc", "--inmemory", "--defer-deletes"),
        ("gc", "-c", "sometimes"),
        ("gc", "-C", "main"),
        ("gc", "-C", "(=1"),
        ("gc", "-R", "yesterday"),
        ("gc", "--max-file-modification", "soon"),
        ("gc", "--grace-period", "1 day"),
        ("gc", "--fpp", "2"),
        ("mark", "--jdbc"),
        ("mark", "--jdbc-url", "jdbc:h2:mem:x"),
        ("mark", "--jdbc-url", "jdbc:oracle:thin:@h"),
        ("mark", "-u", "http://localhost/api/v1"),
        ("mark", "-u", "http://localhost", "-o", "nessie.authentication.type=OAUTH2"),
        ("gc", "-I", "s3.access-key-id=x"),
        ("sweep",),
        ("sweep", "-l", "x", "-L", "y"),
        ("show", "-L", "/nowhere/id"),
        ("list", "--time-zone", "Moon"),
        ("show-sql-create-schema-script", "--database", "oracle"),
        ("completion-script",),
    ],
)
def test_usage_errors(cli: Commands, words: tuple[str, ...]) -> None:
    options = cli.common if words[0] in ("mark", "gc") and "-u" not in words else ()
    assert "Usage" in cli.run(*words, *options, code=2).output


def test_options_from_the_environment(cli: Commands, lake: DiskLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESSIE_GC_DEFAULT_CUTOFF", "1")
    monkeypatch.setenv("NESSIE_GC_MAX_DELETION_SHARE", "1")
    monkeypatch.setenv("NESSIE_OPS_STORE", lake.store)
    live = live_files(lake)
    cli.run("gc")
    assert set(lake.list_files()) == live


def test_scripts_and_texts(cli: Commands, tmp_path: Path) -> None:
    script = cli.run("show-sql-create-schema-script").stdout
    assert script.count(";\n\n") == 7
    file = tmp_path / "ddl"
    cli.run("show-sql-create-schema-script", "--output-file", str(file), "--database", "mariadb")
    assert "utf8mb4_bin" in file.read_text()
    done = tmp_path / "completion"
    assert str(done) in cli.run("completion-script", "-O", str(done)).stdout
    assert "exists already" in cli.refuse("completion-script", "-O", str(done))
    ask = 'source "$0"; COMP_WORDS=(nessie-ops gc sweep --exp); COMP_CWORD=3; _nessie_ops_gc; echo ${COMPREPLY[*]}'
    shell = subprocess.run(["bash", "-c", ask, done], capture_output=True, text=True, check=True)
    assert shell.stdout == "--expected-file-count --expiry-parallelism --expire-snapshots --expire-on --explain\n"
    assert "msgspec" in cli.run("show-licenses").stdout
    for words in (("help", "sweep"), ("sweep", "-h"), ("expire", "--help")):
        assert "--max-deletion-share" in cli.run(*words).stdout
    assert "deferred-deletes" in cli.run("help").stdout
    assert "nessie-ops" in cli.run("list", "-V").stdout


def test_old_live_sets_age_out(cli: Commands) -> None:
    swept = mark(cli)
    cli.on("sweep", "-l", swept, *SHARE)
    old = mark(cli)
    newest = mark(cli, "--keep-live-sets", "PT0S")
    assert {row["id"] for row in cli.json("list")} == {swept, newest}, old
