"""Changes on branches of their own, on real Spark: loaded, checked, reported, merged once, dropped."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest

from assets.published import list_months
from nessie_ops.ci.trying import parse_lease
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.model import QUARANTINED, ContentKey, Delete, NewCommit, ReferenceType
from tests.ci.conftest import SMALL, Command, Ran
from tests.dagster.deliveries import change_rows

pytestmark = pytest.mark.spark


def up(ci: Command, name: str, folder: Path, *words: str) -> Ran:
    return ci("up", "--name", name, "--summary", str(folder), *words)


@pytest.fixture(scope="module")
def small(january: Sequence[Ran], ci: Command, home: Path) -> Ran:
    """A change of one table, which reads the others from main."""
    return up(ci, "small", home / "small", "--select", SMALL)


def test_a_change_of_everything_is_merged_as_one_commit(
    january: Sequence[Ran], client: NessieClient, summary: Path
) -> None:
    first, tried, merged = january
    assert first.code == 0, first
    assert (first.value["result"], first.value["notRun"]) == ("passed", [])
    assert len(first.value["checks"]) == 29 and len(first.value["runs"]) == 1
    assert tried.code == merged.code == 0, (tried, merged)
    assert (tried.value["commit"], tried.value["reason"]) == (None, "")
    commit = client.get_commit(merged.value["commit"])
    assert commit.message == "Merge ci/first" and commit.authors == ("ann",)
    properties = commit.all_properties
    assert properties["nessie_ops.partition"] == ("2013-01",)
    assert "silver.flights:keys_unique passed" in properties["nessie_ops.checks"]
    assert [log.commit_meta.message for log in client.list_log(commit.parent_commit_hashes[0])] == [
        "Create namespaces bronze, silver, gold"
    ]
    assert list_months(client, commit.hash) == {"2013-01"}, "so no schedule loads it again"
    assert json.loads((summary / "summary.json").read_text()) == first.value
    assert "ci/first: passed" in (summary / "summary.md").read_text()


def test_what_is_not_selected_is_read_from_main(small: Ran, home: Path, client: NessieClient) -> None:
    assert small.code == 0, small
    found = small.value
    assert found["selected"] == [change["key"] for change in found["changes"]] == ["gold.airport_hourly"]
    assert {check["table"] for check in found["checks"]} == {"gold.airport_hourly"}
    [change] = found["changes"]
    assert change["change"] == "changed" and change["before"]["rows"] == change["after"]["rows"] > 50
    assert change["added"]["rows"] == change["removed"]["rows"] == change["after"]["rows"]
    branch = client.get_reference("ci/small")
    assert branch.properties["owner"] == "nessie-ops"
    assert branch.properties["base_hash"] == found["branch"]["base"]
    assert branch.properties["expires_at"] == found["branch"]["expiresAt"]
    assert branch.hash == found["branch"]["head"] != found["branch"]["base"]
    told = r"(?s)begins  check_gold_airport_hourly\n.*ok {6}check_gold_airport_hourly +[\d.]+ s  \d checks passed\n"
    assert re.search(r"ok {6}gold__airport_hourly +[\d.]+ s  [\d,]+ rows\n", small.err), small.err
    assert re.search(told, small.err), small.err
    text = (home / "small/summary.md").read_text()
    assert "| `gold.airport_hourly` | changed |" in text and "No table's columns changed." in text


def test_only_one_of_two_changes_of_a_table_is_merged(
    small: Ran, ci: Command, client: NessieClient, tmp_path: Path
) -> None:
    other = up(ci, "other", tmp_path, "--select", SMALL)
    assert other.code == 0 and other.value["branch"]["isNew"], other
    [listed] = [row for row in ci("list").value if row["name"] == "ci/small"]
    assert listed["mergeRequest"]["state"] == "OPEN" and listed["mergeRequest"]["waitsFor"] == ["approval"]

    answers = [ci("merge", "--name", "small") for _ in range(2)]
    head = client.get_reference("main").hash
    assert [(answer.code, answer.value["commit"], answer.value["already"]) for answer in answers] == [
        (0, head, False),
        (0, head, True),
    ]
    for words in (["--dry-run"], [], []):
        refused = ci("merge", "--name", "other", *words)
        assert refused.code == 1 and "'gold.airport_hourly'" in refused.value["reason"], refused
    assert client.get_reference("main").hash == head

    words = ("--select", SMALL, "--recreate", "--month", "2013-01", "--month", "2013-02")
    again = up(ci, "other", tmp_path, *words)
    assert again.code == 0, again
    assert again.value["branch"]["base"] == head
    assert [run["month"] for run in again.value["runs"]] == ["2013-01", "2013-02", "2013-01"], (
        "January's checks once more: February wrote the table after them"
    )
    by_month = {check["month"] for check in again.value["checks"]}
    assert by_month == {"2013-01", "2013-02"} and again.value["notRun"] == []
    assert ci("merge", "--name", "other").code == 0


def test_a_failed_check_forbids_the_merge_and_leaves_the_branch(
    january: Sequence[Ran], ci: Command, client: NessieClient, source: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(source, damaged)
    change_rows(damaged, "weather", lambda rows: [*rows, {**rows[0], "temp": "1"}])
    words = ("--month", "2013-01", "--select", "bronze/weather", "--source", str(damaged), "--quarantine")
    failed = up(ci, "red", tmp_path, *words)
    assert failed.code == 1, failed
    assert failed.value["result"] == "checks failed"
    assert "bronze.weather:keys_unique 2013-01" in failed.value["reason"]
    [check] = [row for row in failed.value["checks"] if row["name"] == "keys_unique"]
    assert check["badRows"] == 2 and check["sample"].startswith("| ")
    text = (tmp_path / "summary.md").read_text()
    assert "**`bronze.weather:keys_unique 2013-01` fails**" in text and check["sample"] in text
    assert "gold.airport_hourly:keys_unique 2013-01" in failed.value["notRun"], "nothing downstream was launched"

    branch = client.get_reference("ci/red")
    assert "keys_unique" in branch.properties[QUARANTINED]
    key = ContentKey.of("bronze", "weather")
    assert (
        client.get_contents(branch.hash, [key])[key] != client.get_contents(branch.properties["base_hash"], [key])[key]
    )
    main = client.get_reference("main").hash
    for dry_run in (("--dry-run",), ()):
        refused = ci("merge", "--name", "red", *dry_run)
        assert refused.code == 1 and "keys_unique" in refused.value["reason"], refused

    (damaged / "weather.csv").unlink()
    broken = up(ci, "red", tmp_path, *words[:-1])
    assert (broken.code, broken.value["result"]) == (3, "run failed"), broken
    assert "weather.csv" in broken.value["reason"] and not broken.value["branch"]["isNew"]
    refused = ci("merge", "--name", "red")
    assert refused.code == 1 and "keys_unique" in refused.value["reason"], refused
    assert client.get_reference("main").hash == main


def test_what_moved_after_its_checks_is_not_merged_and_what_is_dropped_is_gone(
    january: Sequence[Ran], ci: Command, client: NessieClient, tmp_path: Path
) -> None:
    assert up(ci, "moved", tmp_path, "--select", SMALL, "--lease", "12h").code == 0
    main = client.get_reference("main").hash
    head = client.get_reference("ci/moved").hash
    client.commit("ci/moved", head, NewCommit(message="by hand"), [Delete(ContentKey.of("bronze", "planes"))])
    refused = ci("merge", "--name", "moved")
    assert refused.code == 1 and f"its checks were at {head}" in refused.value["reason"], refused

    tried = ci("down", "--name", "moved", "--dry-run")
    assert (tried.code, tried.value["dropped"]) == (0, False)
    dropped = [ci("down", "--name", "moved") for _ in range(2)]
    assert [(row.code, row.value["dropped"]) for row in dropped] == [(0, True), (0, False)]
    assert client.list_references(prefix="ci/moved") == []
    [request] = client.list_merge_requests(source="ci/moved")
    assert request.state == "CLOSED" and "was dropped" in request.outcome
    assert client.get_reference("main").hash == main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--select", "nope"], "select: 'nope'"),
        (["--select", "key:nope"], "names no table"),
        (["--month", "2014-01"], "month: 2014-01"),
        (["--lease", "soon"], "lease: 'soon'"),
        (["--base", "nowhere", "--select", SMALL], "nowhere"),
        (["--select", SMALL, "--dagster", "http://127.0.0.1:9"], "does not answer"),
        (["--select", SMALL, "--dagster", "here"], "is not a URL"),
    ],
)
def test_what_cannot_be_asked_says_so(
    january: Sequence[Ran], ci: Command, client: NessieClient, tmp_path: Path, words: list[str], message: str
) -> None:
    main = client.get_reference("main").hash
    refused = up(ci, "wrong", tmp_path / "none", *words)
    assert refused.code == 2 and message in refused.err, refused
    assert client.get_reference("main").hash == main and not (tmp_path / "none").exists()
    assert ci("merge", "--name", "never").code == 2


def test_a_branch_of_someone_else_is_left_alone(
    january: Sequence[Ran], ci: Command, client: NessieClient, tmp_path: Path
) -> None:
    main = client.get_reference("main")
    client.create_reference(ReferenceType.BRANCH, "ci/theirs", main.hash)
    assert up(ci, "theirs", tmp_path, "--select", SMALL).code == 2
    assert ci("down", "--name", "theirs").code == 2
    assert "ci/theirs" not in [row["name"] for row in ci("list").value]
    client.delete_reference("ci/theirs", main.hash)


@pytest.mark.parametrize(
    ("job", "asset", "branch", "message"),
    [
        ("load_month", "publish", "ci/other", "does not belong to a run"),
        ("load_month", "run_branch", "ci/other", "does not belong to a run"),
        ("load_on_branch", SMALL, "main", "was not opened for runs"),
        ("load_on_branch", SMALL, "run/another", "does not exist"),
    ],
)
def test_no_run_publishes_from_such_a_branch_or_writes_to_another(
    january: Sequence[Ran], client: NessieClient, job: str, asset: str, branch: str, message: str
) -> None:
    before = [(ref.name, ref.hash) for ref in client.list_references()]
    result = (
        build()
        .resolve_job_def(job)
        .execute_in_process(
            raise_on_error=False,
            partition_key="2013-01",
            asset_selection=[dg.AssetKey.from_user_string(asset)],
            tags={"nessie/branch": branch},
        )
    )
    failures = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    assert failures and failures[0] and failures[0].cause and message in failures[0].cause.message
    assert [(ref.name, ref.hash) for ref in client.list_references()] == before


def test_leases_are_days_hours_and_minutes_or_iso() -> None:
    seconds = [parse_lease(text).total_seconds() for text in ("7d", "12h", "30m", "P1DT1H")]
    assert seconds == [7 * 86400, 12 * 3600, 1800, 25 * 3600]
    for wrong in ("0d", "-1d", "7", "9999d"):
        with pytest.raises(BadRequest, match=r"^lease: "):
            parse_lease(wrong)
