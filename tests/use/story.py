"""What the pages of docs/use tell, done in one home in their order: each chapter does it and takes the page's pictures.

A chapter types what its page says, and asks the catalog whether it became so.
"""

from __future__ import annotations

import subprocess
import sys

import dagster as dg
from playwright.sync_api import Page

from nessie_ops.errors import ReferenceNotFound
from nessie_ops.model import QUARANTINED, MergeRequestState
from tests.dagster.web import ROOT, wait_for
from tests.use.pages import commands, configuration
from tests.use.site import Site

FAILED = dg.DagsterRunStatus.FAILURE
LAUNCHING, MERGING, COLLECTION = "launching.md", "merging.md", "collection.md"


def tell(site: Site) -> None:
    """All chapters; an AssertionError where something is not as the pages say."""
    load_a_month(site)
    refused, asking = load_two_more(site)
    see_a_check_fail(site, refused)
    merge_by_a_request(site, asking)
    repair(site, refused, asking)
    collect(site)
    see_the_schedules(site)
    type_commands(site)


def load_a_month(site: Site) -> None:
    run_id = site.launch_assets("load_month", "2013-01", picture="launch.png")
    site.ends(run_id)
    assert _published(site) == [run_id]
    _see_steps(site, run_id)
    site.take("run.png", "Success", "partition: 2013-01", "run_branch", "check_silver_flights")
    site.open("assets/publish?view=partitions&partition=2013-01")
    site.take("published.png", "Materialized", run_id[:8], "nessie/commit", "nessie/target")


def load_two_more(site: Site) -> tuple[str, str]:
    """The runs of the damaged month and of one that asks, which go on side by side."""
    config = configuration(LAUNCHING, "deliveries").replace("/data/february", str(site.damaged))
    damaged = site.launch_assets("load_month", "2013-02", config)
    config = configuration(MERGING, "publish")
    return damaged, site.launch_assets("load_month", "2013-03", config, picture="publish-sensor.png")


def see_a_check_fail(site: Site, run_id: str) -> None:
    site.ends(run_id, FAILED)
    assert "times_possible" in wait_for("the quarantine", lambda: _quarantine(site, run_id))
    page = site.open("assets/bronze/flights?view=checks&checkDetail=times_possible")
    page.get_by_text("[Show Markdown]").click()
    site.take("failed-check.png", "dep_time", "2575", area=page.get_by_role("dialog"))
    page = _see_steps(site, run_id)
    page.get_by_role("button", name="Re-execute all").locator("xpath=following::button[1]").click()
    site.take("re-execute.png", "Failure", "check_bronze_flights", "From failure", "All steps")


def merge_by_a_request(site: Site, run_id: str) -> None:
    site.ends(run_id)
    [asked] = site.client.list_merge_requests(state=MergeRequestState.OPEN)
    assert (asked.number, asked.waits_for, len(_published(site))) == (1, ("approval",), 1)
    page = site.open("locations/nessie_ops/sensors/follow_merge_requests")
    page.get_by_text("0 runs requested").nth(2).click()  # of the newest tick; the first is above the list
    site.take("sensor.png", "Skip reason", "waits for approval", area=page.get_by_role("dialog"), height=200)
    site.ends(site.launch("approve_request", configuration(MERGING, "approve")))
    merge = wait_for("the run that merges", lambda: site.newest("merge_one_request"))
    site.ends(merge)
    assert _published(site)[0] == run_id and not _is_there(site, run_id)
    site.open(f"runs/{merge}")
    site.take("merged.png", "Success", "merge_branch", "nessie/merge_request")


def repair(site: Site, refused: str, published: str) -> None:
    """Undo what a run published, and throw another away."""
    config = configuration(LAUNCHING, "revert_published", RUN_ID=published)
    site.ends(site.launch("revert_run", config, picture="revert.png"))
    log = site.client.list_log(site.client.get_reference("main").hash, limit=1)
    assert log[0].commit_meta.message.startswith("Revert") and log[0].commit_meta.authors == ("ann",)
    site.ends(site.launch("discard_run", configuration(LAUNCHING, "discard_branch", RUN_ID=refused)))
    assert not _is_there(site, refused)


def collect(site: Site) -> None:
    before = _files(site)
    found = site.launch_assets("find_garbage", "All", configuration(COLLECTION, "gc_sweep"))
    site.ends(found)
    assert _files(site) == before
    site.open("assets/gc_sweep?view=partitions&partition=00")
    site.take("garbage.png", found, "nessie/live_set", "files/dead")
    config = configuration(COLLECTION, "gc_deleted", LIVE_SET=found)
    site.ends(site.launch_asset_config("delete_garbage", config))
    assert 0 < len(_files(site)) < before


def see_the_schedules(site: Site) -> None:
    site.open("automation")
    site.take("schedules.png", "nightly_search", "nightly_collection", "nightly_reaping")


def type_commands(site: Site) -> None:
    """The commands of the pages that only look, as a person types them beside the web interface."""
    for page in (LAUNCHING, MERGING, COLLECTION):
        for words in commands(page):
            if words[0] != "run":  # a month takes as long as all of the other commands; it has tests of its own
                command = [sys.executable, "-m", "nessie_ops", *words]
                ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
                assert ended.returncode == 0, (words, ended.stderr)


def _see_steps(site: Site, run_id: str) -> Page:
    """The page of a run, with its steps and without its log."""
    page = site.open(f"runs/{run_id}")
    page.get_by_role("button", name="gantt_flat").click()
    page.get_by_role("button", name="expand_arrows").first.click()
    return page


def _published(site: Site) -> list[str]:
    """The runs that main's commits name, newest first."""
    log = site.client.list_log(site.client.get_reference("main").hash)
    found = (entry.commit_meta.all_properties.get("nessie_ops.run_id", ()) for entry in log)
    return [run_id for names in found for run_id in names]


def _quarantine(site: Site, run_id: str) -> str | None:
    return site.client.get_reference(f"run/{run_id}").properties.get(QUARANTINED)


def _is_there(site: Site, run_id: str) -> bool:
    try:
        return bool(site.client.get_reference(f"run/{run_id}"))
    except ReferenceNotFound:
        return False


def _files(site: Site) -> int:
    return sum(path.is_file() for path in (site.home / "warehouse").rglob("*"))
