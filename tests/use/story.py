"""What the pages of docs/use tell, done in one home in their order: each chapter does it and takes the page's pictures.

A chapter types what its page says, and asks the catalog whether it became so.
"""

from __future__ import annotations

import dagster as dg
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from assets.collection import SHARDS
from nessie_ops.__main__ import make_app
from nessie_ops.errors import ReferenceNotFound
from nessie_ops.model import QUARANTINED, MergeRequestState
from schedules.schedules import all_schedules
from tests.dagster.web import wait_for
from tests.use.pages import commands, configuration
from tests.use.site import HEIGHT, WIDTH, Site

FAILED = dg.DagsterRunStatus.FAILURE
LAUNCHING, MERGING, COLLECTION, CHANGES = "launching.md", "merging.md", "collection.md", "ci.md"

_LOOK = """<style>
main { font: 14px sans-serif; padding: 1px 16px; width: fit-content; } b { color: green; }
table { border-collapse: collapse; font: inherit; }
td, th { border: 1px solid #d0d7de; padding: 4px 10px; text-align: left; }
</style>"""


def tell(site: Site) -> None:
    """All chapters; an AssertionError where something is not as the pages say."""
    load_a_month(site)
    refused = see_a_check_fail(site)
    asking = merge_by_a_request(site)
    repair(site, refused, asking)
    try_a_change(site)
    collect(site)
    see_the_schedules(site)
    type_commands(site)


def load_a_month(site: Site) -> None:
    run_id = site.launch_assets("load_month", "2013-01", picture="launch.png")
    site.ends(run_id)
    assert _published(site) == [run_id]
    site.open_run(run_id, "check_silver_flights", "green")
    site.take("run.png", "Success", "partition: 2013-01", "run_branch")
    page = site.open("assets/publish?view=partitions&partition=2013-01")
    site.take("published.png", "Materialized", run_id[:8], "nessie/commit", "nessie/target", "rows_added")
    page.set_viewport_size({"width": WIDTH + WIDTH // 2, "height": HEIGHT})  # a table of so many columns is cut off
    changes = page.get_by_role("row").filter(has=page.get_by_text("changes", exact=True)).get_by_role("table")
    site.take("changes.png", "bronze.airlines", "Bytes", "silver.flights_weather", area=changes)
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def see_a_check_fail(site: Site) -> str:
    """The run, whose branch is kept."""
    config = configuration(LAUNCHING, "deliveries").replace("/data/february", str(site.damaged))
    run_id = site.launch_assets("load_month", "2013-02", config)
    site.ends(run_id, FAILED)
    assert "times_possible" in wait_for("the quarantine", lambda: _quarantine(site, run_id))
    page = site.open("assets/bronze/flights?view=checks&checkDetail=times_possible")
    page.get_by_text("[Show Markdown]").click()
    site.take("failed-check.png", "dep_time", "2575", area=page.get_by_role("dialog"))
    page = site.open_run(run_id, "check_bronze_flights", "red")
    page.get_by_role("button", name="Re-execute all").locator("xpath=following::button[1]").click()
    site.take("re-execute.png", "Failure", "From failure", "All steps")
    return run_id


def merge_by_a_request(site: Site) -> str:
    """The run whose month is then on main."""
    run_id = site.launch_assets(
        "load_month", "2013-03", configuration(MERGING, "publish"), picture="publish-sensor.png"
    )
    site.ends(run_id)
    [asked] = site.client.list_merge_requests(state=MergeRequestState.OPEN)
    assert (asked.number, asked.waits_for, len(_published(site))) == (1, ("approval",), 1)
    wait_for("a tick about the request", lambda: "waits for approval" in _newest_tick(site))
    page = site.open("locations/nessie_ops/sensors/follow_merge_requests")
    page.get_by_text("0 runs requested").nth(2).click()  # of the newest tick; the first is above the list
    site.take("sensor.png", "Skip reason", "waits for approval", area=page.get_by_role("dialog"), height=200)
    site.ends(site.launch("approve_request", configuration(MERGING, "approve")))
    merge = wait_for("the run that merges", lambda: site.newest("merge_one_request"))
    site.ends(merge)
    assert _published(site)[0] == run_id and not _is_there(site, run_id)
    site.open_run(merge, "merge_branch", "green", steps_percent=20)
    site.take("merged.png", "Success", "Materialized value publish")
    return run_id


def repair(site: Site, refused: str, published: str) -> None:
    """Undo what a run published, and throw another away."""
    config = configuration(LAUNCHING, "revert_published", RUN_ID=published)
    site.ends(site.launch("revert_run", config, picture="revert.png"))
    log = site.client.list_log(site.client.get_reference("main").hash, limit=1)
    assert log[0].commit_meta.message.startswith("Revert") and log[0].commit_meta.authors == ("ann",)
    site.ends(site.launch("discard_run", configuration(LAUNCHING, "discard_branch", RUN_ID=refused)))
    assert not _is_there(site, refused)


def try_a_change(site: Site) -> None:
    """As a build does, on the server; the picture is of the summary, as a pull request shows it."""
    summary = site.home / "ci-summary"
    for words in commands(CHANGES):
        there = ["--dagster", site.address, "--summary", str(summary)] if words[1] == "up" else []
        _type([*words, *there])
    assert "ci/pr-123" not in [reference.name for reference in site.client.list_references()]
    log = site.client.list_log(site.client.get_reference("main").hash, limit=1)
    assert log[0].commit_meta.all_properties["nessie_ops.branch"] == ("ci/pr-123",)
    page = site.page
    text = MarkdownIt().enable("table").render((summary / "summary.md").read_text())
    page.set_content(f"{_LOOK}<main>{text.replace('✅', '<b>✔</b>')}</main>")  # few machines have a font with the other
    shown = ("ci/pr-123: passed", "rows before", "gold.airport_hourly", "SUCCESS")
    site.take("ci-summary.png", *shown, area=page.locator("main"))


def collect(site: Site) -> None:
    before = _files(site)
    found = site.launch_assets("find_garbage", "All", configuration(COLLECTION, "gc_sweep"))
    site.ends(found)
    assert _files(site) == before
    shard, dead = _most_garbage(site)
    site.open(f"assets/gc_sweep?view=partitions&partition={shard}")
    site.take("garbage.png", found, "nessie/live_set", "files/dead", str(dead))
    config = configuration(COLLECTION, "gc_deleted", LIVE_SET=found)
    site.ends(site.launch_asset_config("delete_garbage", config))
    assert 0 < _files(site) < before


def see_the_schedules(site: Site) -> None:
    site.open("automation?selection=type:schedule")
    site.take("schedules.png", *(schedule.name for schedule in all_schedules))


def type_commands(site: Site) -> None:
    """The commands of the pages that only look, as a person types them beside the web interface."""
    for page in (LAUNCHING, MERGING, COLLECTION):
        for words in commands(page):
            if words[0] != "run":  # a month takes as long as all of the other commands; it has tests of its own
                _type(words)


def _type(words: list[str]) -> None:
    ended = CliRunner().invoke(make_app(), words)
    assert ended.exit_code == 0, (words, ended.stderr)


def _most_garbage(site: Site) -> tuple[str, int]:
    """The shard with most dead files, and how many these are."""
    records = site.instance.fetch_materializations(dg.AssetKey("gc_sweep"), limit=SHARDS).records
    found = [record.asset_materialization for record in records]
    dead = {each.partition: int(str(each.metadata["files/dead"].value)) for each in found if each and each.partition}
    assert len(dead) == SHARDS
    return max(dead.items(), key=lambda item: item[1])


def _published(site: Site) -> list[str]:
    """The runs that main's commits name, newest first."""
    log = site.client.list_log(site.client.get_reference("main").hash)
    found = (entry.commit_meta.all_properties.get("nessie_ops.run_id", ()) for entry in log)
    return [run_id for names in found for run_id in names]


def _newest_tick(site: Site, sensor: str = "follow_merge_requests") -> str:
    """What the newest tick of a sensor says."""
    [state] = [state for state in site.instance.all_instigator_state() if state.name == sensor]
    ticks = site.instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
    return ticks[0].skip_reason or "" if ticks else ""


def _quarantine(site: Site, run_id: str) -> str | None:
    return site.client.get_reference(f"run/{run_id}").properties.get(QUARANTINED)


def _is_there(site: Site, run_id: str) -> bool:
    try:
        return bool(site.client.get_reference(f"run/{run_id}"))
    except ReferenceNotFound:
        return False


def _files(site: Site) -> int:
    return sum(path.is_file() for path in (site.home / "warehouse").rglob("*"))
