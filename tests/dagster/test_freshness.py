"""Tables of main are late by their commits in the catalog, at a time that the test says; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from assets.freshness import NAME, FreshnessConfig, find_published, judge, to_rule
from assets.run_branches import utc_now
from assets.transforms.tables import PLANES, TABLES, WEATHER, Table
from nessie_ops.catalog.runwork import REVERTED
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.gc.rewriting import MAINTENANCE
from nessie_ops.model import CommitHash, CommitMeta, NewCommit, Put
from tests.versioning.helpers import key, namespace, table

N = iter(range(1, 1000))


@pytest.fixture(scope="module", autouse=True)
def namespaces(home: object) -> None:
    from resources.catalog import CatalogResource

    client = CatalogResource().client
    puts = [Put(key(name), namespace(name)) for name in ("bronze", "silver", "gold")]
    client.commit("main", client.get_reference("main").hash, NewCommit(message="n"), puts)


def write(client: NessieClient, which: Table, **properties: str | tuple[str, ...]) -> CommitMeta:
    """A commit on main that changes a table."""
    at = client.get_reference("main").hash
    known = client.get_contents(at, [key(which.name)]).get(key(which.name))
    put = Put(key(which.name), table(next(N), str(known.id) if known else None))
    named = {f"nessie_ops.{name}": (value,) if isinstance(value, str) else value for name, value in properties.items()}
    meta = NewCommit(message=f"write {which.name}", properties=named)
    return client.get_commit(client.commit("main", at, meta, [put]).target_branch.hash)


def newest(client: NessieClient, which: Table) -> CommitHash:
    found = find_published(client, client.get_reference("main").hash, [key(which.name)])
    return found[key(which.name)].hash


def test_a_table_is_late_when_its_commit_is_before_the_window(client: NessieClient) -> None:
    at = write(client, PLANES).commit_time
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    due = midnight + timedelta(days=1, hours=6)  # the first deadline whose window may begin after the commit
    config = FreshnessConfig(deadline_cron="0 6 * * *", lower_bound_delta="PT24H", lateness="PT2H")

    def passed(now: datetime) -> bool:
        [verdict] = judge(client, "main", [PLANES], to_rule(config), now)
        assert verdict.published is not None and verdict.published.commit_time == at
        return verdict.passed

    last = due if at >= due - timedelta(days=1) else due - timedelta(days=1)  # the last deadline that it satisfies
    next_day = last + timedelta(days=1, hours=2)  # when the following one counts
    assert passed(at) and passed(last + timedelta(hours=2)) and passed(next_day - timedelta(seconds=1))
    assert not passed(next_day) and not passed(next_day + timedelta(days=30))


def test_deadlines_follow_the_time_zone_and_the_lateness() -> None:
    config = FreshnessConfig(deadline_cron="0 6 * * 1", timezone="Europe/Berlin", lateness="PT1H")
    rule = to_rule(config)
    monday = datetime(2026, 7, 6, 4, tzinfo=UTC)  # six o'clock in Berlin
    assert rule.deadline(monday + timedelta(hours=1)) == monday
    assert rule.deadline(monday + timedelta(minutes=59)) == monday - timedelta(days=7)


def test_what_others_commit_counts_and_what_brings_no_rows_does_not(client: NessieClient) -> None:
    theirs = write(client, WEATHER)
    assert newest(client, WEATHER) == theirs.hash, "by hand, by Spark, by whom ever"
    write(client, WEATHER, maintenance="tables")
    assert newest(client, WEATHER) == theirs.hash
    published = write(client, PLANES, run_id="r1", root_run_id="r1", assets=(WEATHER.name, PLANES.name))
    assert newest(client, WEATHER) == published.hash, "the run looked, and its delivery was unchanged"
    write(client, PLANES, reverted_commit=published.hash)
    assert newest(client, WEATHER) == theirs.hash, "what was undone is not there"
    again = write(client, PLANES, run_id="r2", assets=(WEATHER.name,))
    assert newest(client, WEATHER) == again.hash
    assert (MAINTENANCE, REVERTED) == ("nessie_ops.maintenance", "nessie_ops.reverted_commit")


@pytest.mark.parametrize("name", ["", "a..b", "x\0y", "a" * 2000])
def test_what_a_commit_says_of_its_tables_may_be_anything(client: NessieClient, name: str) -> None:
    odd = write(client, PLANES, assets=(name, WEATHER.name))
    assert newest(client, WEATHER) == odd.hash
    assert find_published(client, odd.hash, [key("gold.never")]) == {}


def test_it_looks_far_enough(client: NessieClient) -> None:
    first = write(client, WEATHER)
    for _ in range(260):
        write(client, PLANES)
    assert newest(client, WEATHER) == first.hash, "beyond one page of the log"


def test_the_checks_warn_and_block_nothing(
    client: NessieClient, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(client, PLANES)
    job = build().resolve_job_def("check_freshness")

    def check() -> dict[str, dg.AssetCheckEvaluation]:
        result = job.execute_in_process(instance=instance)
        assert result.success, "a late table fails no run"
        return {".".join(found.asset_key.path): found for found in result.get_asset_check_evaluations()}

    # The last deadline was at most a minute ago, and what was published in the hour before it counts.
    monkeypatch.setenv("NESSIE_OPS_FRESH_BY", "* * * * *")
    monkeypatch.setenv("NESSIE_OPS_FRESH_WITHIN", "PT1H")
    found = check()
    assert found.keys() == TABLES.keys()
    assert {name for name, evaluation in found.items() if evaluation.passed} >= {"bronze.planes", "bronze.weather"}
    absent = found["gold.carrier_delays"]
    assert (absent.passed, absent.blocking, absent.check_name) == (False, False, NAME)
    assert absent.severity == dg.AssetCheckSeverity.WARN
    assert absent.description is not None and absent.description.startswith("main does not have the table; due by")
    planes = found["bronze.planes"].metadata
    assert planes["nessie/commit"].value == client.get_reference("main").hash
    assert isinstance(planes["age_hours"].value, float)

    monkeypatch.setenv("NESSIE_OPS_FRESH_WITHIN", "PT0S")
    instance.report_runless_asset_event(dg.AssetMaterialization(["bronze", "planes"]))
    rule = to_rule(FreshnessConfig())
    [verdict] = judge(client, "main", [PLANES], rule, utc_now() + timedelta(minutes=2))
    assert not verdict.passed, "an event of Dagster's makes nothing fresh that main does not have"


@pytest.mark.parametrize(
    ("field", "value"),
    [("deadline_cron", "soon"), ("timezone", "Mars/North"), ("lower_bound_delta", "1 day"), ("lateness", "late")],
)
def test_what_cannot_be_read_is_named(field: str, value: str) -> None:
    with pytest.raises(BadRequest, match=f"{field}: '{value}'"):
        to_rule(FreshnessConfig(**{field: value}))


def test_loading_a_month_does_not_ask_for_freshness() -> None:
    repository = build().get_repository_def()
    assert "check_freshness_of_main" not in {node.name for node in repository.get_job("load_month").nodes}
    schedules = {schedule.name: schedule for schedule in repository.schedule_defs}
    assert schedules["hourly_freshness"].job.name == "check_freshness"
    assert schedules["hourly_freshness"].default_status == dg.DefaultScheduleStatus.STOPPED
