"""A home with its web interface in a browser: launch a job as a person does, wait for its end, take a picture."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import dagster as dg
import yaml
from playwright.sync_api import Locator, Page, expect

from assets.transforms.months import Month
from nessie_ops.client import NessieClient
from nessie_ops.demo.damage import write_damaged
from nessie_ops.instance import open_instance
from nessie_ops.runtime.home import create_home, dagster_home
from resources.catalog import CatalogResource
from tests.browsers import open_page
from tests.dagster.web import wait_for, web_interface

WIDTH, HEIGHT = 1280, 800
PATIENCE_MS = 120_000  # a page takes a second on a quiet machine; this is to notice a hang
_STEPS = "dagster.panel-width.run-gantt"
_ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


class Site(NamedTuple):
    """`source` has the deliveries, `damaged` those of February with broken rows; pictures go to `images`."""

    home: Path
    source: Path
    damaged: Path
    images: Path
    instance: dg.DagsterInstance
    client: NessieClient
    page: Page
    address: str

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.address}/{path}")
        return self.page

    def open_run(self, run_id: str, step: str, color: str, *, steps_percent: int = 100) -> Page:
        """A run's page, once that step has the colour of how it ended; the rest of the page is the run's log."""
        # What was chosen on the page before is kept, so clicks would come to something else the next time.
        self.page.evaluate("localStorage.setItem('GanttChartModePreference', '\"flat\"')")
        self.page.evaluate(f"localStorage.setItem('{_STEPS}', '{steps_percent}')")
        page = self.open(f"runs/{run_id}")
        box = page.locator(f"[data-tooltip={step}][style*=accent-{color}]")  # it is drawn without at first
        expect(box).to_be_in_viewport(timeout=PATIENCE_MS)
        return page

    def launch_assets(self, job: str, partitions: str, config: str = "", *, picture: str = "") -> str:
        """The run launched by a job's *Materialize all*; the picture is of its dialog, or of its configuration."""
        page = self.open(f"locations/nessie_ops/jobs/{job}")
        page.get_by_role("button", name="Materialize all").click()
        if partitions == "All":
            page.get_by_role("button", name="All", exact=True).click()
        else:
            page.get_by_placeholder("ex: 2013-01").fill(partitions)
            page.keyboard.press("Tab")
        if config:
            page.get_by_text("Config", exact=True).click()
            page.get_by_role("button", name="Add config").click()
            self._type(config)
            if picture:
                self.take(picture, "Config Editor", "No errors", area=page.get_by_role("dialog").last)
            page.get_by_role("button", name="Save config").click()
        elif picture:
            self.take(picture, "Launch runs to materialize", "Launch 1 run", area=page.get_by_role("dialog"))
        return self._launch(
            job, page.get_by_role("button", name="Launch backfill" if partitions == "All" else "Launch 1 run")
        )

    def launch_asset_config(self, job: str, config: str) -> str:
        """The run launched from the launchpad that the menu beside *Materialize all* opens."""
        page = self.open(f"locations/nessie_ops/jobs/{job}")
        page.get_by_role("button", name="Materialize all").locator("xpath=following::button[1]").click()
        page.get_by_text("Open launchpad").click()
        self._type(config)
        return self._launch(job, page.get_by_role("dialog").last.get_by_role("button", name="Materialize").last)

    def launch(self, job: str, config: str, *, picture: str = "") -> str:
        """The run launched from the tab *Launchpad* of a job."""
        page = self.open(f"locations/nessie_ops/jobs/{job}/playground")
        self._type(config)
        expect(page.get_by_text("No errors")).to_be_visible(timeout=PATIENCE_MS)
        if picture:
            self.take(picture, "Launchpad", "No errors")
        return self._launch(job, page.get_by_role("button", name="Launch Run"))

    def ends(self, run_id: str, status: dg.DagsterRunStatus = dg.DagsterRunStatus.SUCCESS) -> None:
        """Wait for the end of a run, which must be this."""
        assert self._end_of(run_id) == status, run_id

    def newest(self, job: str, *, since: Collection[str] = ()) -> str | None:
        """The newest run of a job that is not among `since`."""
        found = [run.run_id for run in self.instance.get_runs(dg.RunsFilter(job_name=job))]
        return next((run_id for run_id in found if run_id not in since), None)

    def take(self, name: str, *texts: str, area: Locator | None = None, height: int = HEIGHT) -> None:
        """A picture of the page, or of the top of a part, once it shows all `texts` and nothing is being loaded."""
        if area:
            area.scroll_into_view_if_needed()
        for text in texts:
            found = (area or self.page.locator("body")).get_by_text(text).locator("visible=true").first
            expect(found).to_be_in_viewport(timeout=PATIENCE_MS)
        expect(self.page.locator("[class*=Spinner_]").locator("visible=true")).to_have_count(0, timeout=PATIENCE_MS)
        self.page.mouse.move(0, 0)
        box = area.bounding_box() if area else None
        clip = {**box, "height": min(box["height"], height)} if box else None
        self.page.screenshot(path=self.images / name, animations="disabled", clip=clip)

    def _type(self, config: str) -> None:
        editor = self.page.locator(".cm-s-config-editor").last
        expect(editor).to_be_visible(timeout=PATIENCE_MS)
        editor.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(config)

    def _launch(self, job: str, button: Locator) -> str:
        before = {run.run_id for run in self.instance.get_runs(dg.RunsFilter(job_name=job))}
        button.click()
        return wait_for(f"a run of {job}", lambda: self.newest(job, since=before))

    def _end_of(self, run_id: str) -> dg.DagsterRunStatus:
        def look() -> dg.DagsterRunStatus | None:
            run = self.instance.get_run_by_id(run_id)
            return run.status if run and run.status in _ENDED else None

        return wait_for(f"the end of run {run_id}", look)


@contextmanager
def open_site(home: Path, source: Path, images: Path) -> Iterator[Site]:
    """The web interface of a home, which must be that of the environment, and a browser before it."""
    _hurry(create_home(home))
    damaged = home / "february"
    write_damaged(source, damaged, Month.parse("2013-02"))
    images.mkdir(parents=True, exist_ok=True)
    viewport = {"width": WIDTH, "height": HEIGHT}
    with (
        open_instance(home) as instance,
        web_interface(home, NESSIE_OPS_SOURCE=str(source), DAGSTER_GRPC_TIMEOUT_SECONDS="600") as port,
        open_page(viewport=viewport, timezone_id="UTC", locale="en-GB") as page,
    ):
        page.set_default_timeout(PATIENCE_MS)
        client = CatalogResource().client
        yield Site(home, source, damaged, images, instance, client, page, f"http://127.0.0.1:{port}")


def _hurry(home: Path) -> None:
    """Let the daemon look every second."""
    settings = dagster_home(home) / "dagster.yaml"
    hurried = yaml.safe_load(settings.read_text())
    hurried["run_monitoring"]["poll_interval_seconds"] = 1
    del hurried["concurrency"]
    queue = {"class": "QueuedRunCoordinator", "config": {"dequeue_interval_seconds": 1}}
    settings.write_text(yaml.safe_dump({**hurried, "run_coordinator": {"module": "dagster", **queue}}))
