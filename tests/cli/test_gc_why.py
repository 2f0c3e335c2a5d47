"""The report of a sweep, and why files are kept or deleted."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nessie_ops.model import ContentKey, Delete, ReferenceType
from tests.browsers import open_page
from tests.cli.test_gc import SHARE, cli, lake, live_files, mark
from tests.gc.commands import Commands
from tests.gc.disk import DiskLake

__all__ = ["cli", "lake"]  # fixtures


def reasons(path: str) -> dict[str, dict[str, str]]:
    return {file["location"]: file["reason"] for file in json.loads(Path(path).read_text())["files"]}


def expected(lake: DiskLake) -> dict[str, str]:
    """By dead file: the metadata file of the newest version that held it."""
    found: dict[str, str] = {}
    for location in sorted(lake.needs, key=lambda name: int(name.rpartition("/")[2].split(".")[0])):
        state = lake.needs[location]
        for name in {location, *state.log}.union(*(snapshot.files for snapshot in state.snapshots)):
            found[name] = location
    return found


def test_every_dead_file_has_its_last_holder(cli: Commands, lake: DiskLake, tmp_path: Path) -> None:
    lake.versions.create_reference(ReferenceType.BRANCH, "side", lake.versions.get_reference("main").hash)
    lake.put("side", "a", lake.append(lake.state("side", "a"), ["lost"]))  # type: ignore[arg-type]
    lake.versions.delete_reference("side", lake.versions.get_reference("side").hash)
    lake.commit("main", Delete(key=ContentKey.of("b")))
    before = set(lake.list_files())
    id = mark(cli)
    cli.on("sweep", "-l", id, "--report-dir", str(tmp_path / "r"), *SHARE)
    gone = before - set(lake.list_files())
    found = reasons(str(tmp_path / "r" / f"{id}.json"))
    assert set(found) == gone
    orphan = f"{lake.root}/a/data/orphan.parquet"
    assert found.pop(orphan) == {}
    held = expected(lake)
    assert {name: reason["metadataLocation"] for name, reason in found.items()} == {name: held[name] for name in found}
    lost = next(name for name in found if "lost" in name)
    assert found[lost]["reference"] == "side"
    assert "last held by a, put by commit" in cli.on("why", "-l", id, lost).stdout  # from the record
    assert "never committed" in cli.on("why", "-l", id, orphan).stdout


def test_a_report_can_be_read(cli: Commands, lake: DiskLake, tmp_path: Path) -> None:
    lake.write(f"{lake.root}/a/data/<b>&.parquet", b"x" * 5000)
    found = cli.json("gc", "-c", "1", "--report-dir", str(tmp_path), "--dry-run", "--force", "--grace-period", "PT0S")
    report = json.loads(Path(found["reports"]["json"]).read_text())
    assert report["files"] and {**report, "files": None} == {**found["report"], "files": None}
    assert [table["tables"] for table in report["tables"]] == [["a"], ["b"]]
    total = sum(age["dead"]["sizeBytes"] for age in report["ages"].values() if "dead" in age)
    assert total == report["fates"]["dead"]["sizeBytes"] == sum(file["sizeBytes"] for file in report["files"])
    page = Path(found["reports"]["html"]).read_text()
    assert "&lt;b&gt;&amp;.parquet" in page and "<b>&" not in page
    plots = [
        page[start : page.index("</svg>", start) + 6] for start in range(len(page)) if page.startswith("<svg", start)
    ]
    titles = [ElementTree.fromstring(plot).findtext("{http://www.w3.org/2000/svg}title") for plot in plots]
    assert titles == ["Bytes by table", "Bytes by age"]


@pytest.mark.browser
def test_a_report_in_a_browser(cli: Commands, lake: DiskLake, tmp_path: Path) -> None:
    """Names of any kind are shown as they are, nothing is run or fetched, and long ones do not widen the page."""
    odd = ("<script>alert(1)</script>", "a 'b' \"c\" & d", "ünïcodé-漢字-🎉", "x" * 240, "/".join(["deep"] * 200))
    names = {lake.write(f"{lake.root}/a/data/{name}.parquet", b"x" * 9000) for name in odd}
    found = cli.json("gc", "-c", "1", "--report-dir", str(tmp_path), *SHARE)
    heard: list[str] = []
    with open_page() as page:
        page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url))
        page.goto(f"file://{found['reports']['html']}")
        rows = [row.locator("td").all_text_contents() for row in page.locator(".files tr").all()[1:]]
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.locator("svg rect").count() >= 4
        assert str(page.locator(".sums").text_content()).endswith("kBin 20 files deleted")
    assert heard == [f"file://{found['reports']['html']}"]
    assert {row[0] for row in rows[: len(names)]} == names  # the largest first
    assert {(row[1], row[3], row[4], row[5]) for row in rows[: len(names)]} == {
        ("9.0 kB", "a", "deleted", "never committed")
    }
    held = next(row for row in rows if row[0].endswith("/b/data/x-12.parquet"))
    assert held[5].startswith("b, put by commit ") and held[5].endswith(" of main")
    listed = json.loads(Path(found["reports"]["json"]).read_text())["files"]
    assert {row[0] for row in rows} == {file["location"] for file in listed}
    assert all(20 < file["ageDays"] < 40 and file["tables"] in (["a"], ["b"]) for file in listed)


@pytest.mark.parametrize("kind", ["fresh", "live set"])
def test_why(cli: Commands, lake: DiskLake, kind: str) -> None:
    with_set = ("-l", mark(cli)) if kind == "live set" else ("-c", "1")

    def ask(location: str) -> tuple[str, dict[str, str]]:
        found = cli.json("why", location, *with_set)
        return found["fate"], found["reason"]

    head = lake.versions.get_reference("main").hash
    for name in live_files(lake):
        fate, reason = ask(name)
        assert (fate, reason["commit"], reason["key"]) == ("live", head, name.removeprefix(lake.root)[1])
    held = expected(lake)
    dead = next(name for name in held if name not in live_files(lake) and "/data/" in name)
    fate, reason = ask(dead)
    assert (fate, reason["metadataLocation"], reason["reference"]) == ("dead", held[dead], "main")
    assert ask(f"{lake.root}/a/data/orphan.parquet") == ("dead", {})
    assert ask(f"{lake.root}/a/data/never.parquet") == ("missing", {})
    assert ask(lake.write(f"{lake.root}/elsewhere/x")) == ("not listed", {})
    Path(f"{lake.folder}/a/data/young").write_bytes(b"x")
    assert ask(f"{lake.folder}/a//data/young") == ("young", {})
    assert "is not an absolute location" in cli.refuse("why", "young", *with_set, *cli.common)


def test_why_of_what_a_run_did(cli: Commands, lake: DiskLake) -> None:
    """Deleted, gone before, kept after all; and in the folder of a table that cannot be read."""
    dead = {name for name in lake.list_files() if name not in live_files(lake)}
    changed, gone = sorted(name for name in dead if "/b/data/" in name)
    id = mark(cli)
    cli.on("sweep", "-l", id, "--defer-deletes", *SHARE)
    Path(changed.removeprefix("file://")).write_bytes(b"written anew")
    Path(gone.removeprefix("file://")).unlink()
    assert cli.json("why", changed, "-l", id)["fate"] == "young"
    cli.on("deferred-deletes", "-l", id)
    told = {name: cli.json("why", name, "-l", id) for name in (changed, gone)}
    assert (told[changed]["fate"], told[changed]["detail"]) == ("kept", "was written anew")
    assert (told[gone]["fate"], told[gone]["modified"][-1]) == ("gone", "Z")
    other = next(iter(name for name in dead if "/a/data/x-" in name))
    assert "deleted by this run" in cli.on("why", other, "-l", id).stdout
    content = lake.content("main", "b")
    assert content
    Path(content.metadata_location.removeprefix("file://")).write_bytes(b"{")
    assert cli.json("why", changed, "-c", "1")["fate"] == "broken"
