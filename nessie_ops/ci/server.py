"""Trying a change on a Dagster webserver, by GraphQL: the run is launched there, followed, and terminated on Ctrl-C.

The run goes through the server's queue and its daemon; its code and its catalog are the server's.  What it found is
read from its events.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self
from uuid import uuid4

import dagster as dg
import httpx
import msgspec

from assets.runs import READ_AT
from nessie_ops.ci.graphql import EVENTS, JOBS, LAUNCH, LAUNCHED, LOCATIONS, TERMINATE
from nessie_ops.ci.outcomes import CheckOutcome, Execution, Task, Tell
from nessie_ops.ci.selection import is_blocking, table_of
from nessie_ops.ci.steps import Steps
from nessie_ops.client import without_user
from nessie_ops.errors import BadRequest, StoreUnavailable
from schedules.jobs import load_on_branch

ENDED = ("SUCCESS", "FAILURE", "CANCELED")
LAUNCH_TAG = "nessie/launch"  # of a run, by which whoever launched it finds it when the answer is lost
_POLL_S = 1
_MAX_LOST = 60  # answers in a row that are lost before a run is given up: a webserver takes about so long to restart
_MAX_CANCELLING_S = 120
_MAX_LAUNCHING = 5  # looks for a run whose launch was not answered
_TIMEOUT_S = 60


class DagsterServer:
    """A webserver, such as `http://127.0.0.1:3000`; close it, or use it as a context manager."""

    def __init__(self, url: str) -> None:
        self._url = without_user(url.rstrip("/").removesuffix("/graphql"))
        try:
            place = httpx.URL(url)
        except httpx.InvalidURL:
            place = httpx.URL()
        if not place.host or place.scheme not in ("http", "https"):
            raise BadRequest(f"dagster: '{self._url[:200]}' is not a URL such as http://127.0.0.1:3000.")
        self._http = httpx.Client(
            auth=(place.username, place.password) if place.userinfo else None,
            timeout=_TIMEOUT_S,
            trust_env=place.host not in ("127.0.0.1", "localhost", "::1"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._http.close()

    def run(self, task: Task, tell: Tell) -> Execution:
        """Launch a task, and follow it to its end; see `Execute`."""
        selector = self._find_job() | {
            "assetSelection": [{"path": list(key.path)} for key in sorted(task.assets)],
            "assetCheckSelection": [
                {"assetKey": {"path": list(key.asset_key.path)}, "name": key.name} for key in sorted(task.checks)
            ],
        }
        run = _Followed(task.month, tell)
        tags = [{"key": key, "value": value} for key, value in {**task.tags, LAUNCH_TAG: run.launch}.items()]
        params = {"selector": selector, "runConfigData": task.config, "executionMetadata": {"tags": tags}}
        with _stops_are_interrupts():
            try:
                run.run_id = self._launch(params, run)
                tell(f"launched {self._page(run)}")
                self._follow(run)
            except KeyboardInterrupt:
                self._terminate(run)
        return Execution(run.run_id, run.month, run.status, run.reason, self._page(run), tuple(run.checks))

    def _page(self, run: _Followed) -> str:
        return f"{self._url}/runs/{run.run_id}"

    def _launch(self, params: Mapping[str, Any], run: _Followed) -> str:
        """The id of the run, also when the answer that has it is lost: a run that nobody follows would write on."""
        try:
            launched = self._ask(LAUNCH, {"params": params})["launchRun"]
        except StoreUnavailable:
            if run_id := self._find_launched(run):
                return run_id
            raise
        if "run" not in launched:
            raise BadRequest(f"dagster: {self._url} does not launch {load_on_branch.name}: {_message(launched)}")
        return str(launched["run"]["runId"])

    def _find_launched(self, run: _Followed) -> str:
        """The id of a run whose launch was not answered; empty when there is none."""
        for _ in range(_MAX_LAUNCHING):
            found = self._ask(LAUNCHED, {"tags": [{"key": LAUNCH_TAG, "value": run.launch}]})["runsOrError"]
            if launched := found.get("results"):
                return str(launched[0]["runId"])
            time.sleep(_POLL_S)
        return ""

    def _follow(self, run: _Followed) -> None:
        while run.status not in ENDED:
            time.sleep(_POLL_S)
            self._look(run)

    def _look(self, run: _Followed) -> None:
        """Read the events since the last look; a run has ended when it had before a look that finds none."""
        try:
            answer = self._ask(EVENTS, {"id": run.run_id, "after": run.cursor})
        except StoreUnavailable:
            run.lost += 1
            if run.lost >= _MAX_LOST:
                raise
            return
        run.lost, logs = 0, answer["logsForRun"]
        if "events" not in logs:
            raise StoreUnavailable(f"{self._url} does not tell of run {run.run_id}: {_message(logs)}")
        for event in logs["events"]:
            run.add(event)
        run.cursor = logs["cursor"]
        if run.seen in ENDED and not logs["hasMore"] and not logs["events"]:
            run.status = run.seen
        run.seen = answer["runOrError"].get("status", "")

    def _terminate(self, run: _Followed) -> None:
        run.run_id = run.run_id or self._find_launched(run)
        if not run.run_id:
            raise KeyboardInterrupt
        run.tell("interrupted: the run is terminated")
        self._ask(TERMINATE, {"id": run.run_id})
        deadline = time.monotonic() + _MAX_CANCELLING_S
        while run.status not in ENDED and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            self._look(run)
        if run.status not in ENDED:
            run.status, run.is_left = "CANCELED", True

    def _find_job(self) -> dict[str, Any]:
        found = self._ask(JOBS, {})["repositoriesOrError"]
        for node in found.get("nodes", ()):
            if any(job["name"] == load_on_branch.name for job in node["pipelines"]):
                place = {"repositoryName": node["name"], "repositoryLocationName": node["location"]["name"]}
                return {**place, "pipelineName": load_on_branch.name}
        why = "; ".join(self._list_broken()) if "nodes" in found else _message(found)
        raise BadRequest(f"dagster: {self._url} has no job {load_on_branch.name}: {why or 'its code is other code'}")

    def _list_broken(self) -> Iterator[str]:
        """What is wrong with code that did not load."""
        for entry in self._ask(LOCATIONS, {})["workspaceOrError"].get("locationEntries", ()):
            error = entry["locationOrLoadError"] or {"message": "it is being loaded"}
            if "message" in error:
                causes = [error, *error.get("causes", ())]
                yield f"{entry['name']}: {causes[-1]['message'].strip()[:500]}"

    def _ask(self, query: str, variables: Mapping[str, Any]) -> Any:
        try:
            answer = self._http.post(f"{self._url}/graphql", json={"query": query, "variables": variables})
            body = msgspec.json.decode(answer.raise_for_status().content)
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            raise StoreUnavailable(f"dagster: {self._url} does not answer: {error!r}") from error
        if not isinstance(body, dict) or body.get("errors") or not isinstance(body.get("data"), dict):
            raise StoreUnavailable(f"dagster: {self._url} cannot be asked: {str(body)[:500]}")
        return body["data"]


class _Followed:
    """A run as far as its events are known; `run_id` is empty until its launch is answered."""

    def __init__(self, month: str, tell: Tell) -> None:
        self.run_id, self.launch, self.month, self.tell = "", uuid4().hex, month, tell
        self.is_left = False  # it was told to stop, and has not
        self.status, self.seen, self.lost = "", "", 0
        self.cursor: str | None = None
        self.checks: list[CheckOutcome] = []
        self.errors: list[str] = []
        self._steps = Steps(tell)

    @property
    def reason(self) -> str:
        """Why the run did not succeed; empty when it did."""
        if self.status == "SUCCESS":
            return ""
        if self.is_left:
            return "the run was told to stop, and is still at work"
        return "the run was cancelled" if self.status == "CANCELED" else "; ".join(self.errors) or "its process ended"

    def add(self, event: Mapping[str, Any]) -> None:
        kind, step = event["__typename"], event.get("stepKey") or ""
        if kind == "ExecutionStepStartEvent":
            self._steps.begin(step, float(event["timestamp"]) / 1000)
        elif kind == "MaterializationEvent":
            rows = _values(event["metadataEntries"]).get("dagster/row_count")
            if rows is not None:
                self._steps.add_rows(step, int(rows))
        elif kind == "AssetCheckEvaluationEvent":
            check = self._read_check(event["evaluation"])
            self.checks.append(check)
            self._steps.add_check(step, check.name, passed=check.passed)
        elif kind in ("ExecutionStepSuccessEvent", "ExecutionStepFailureEvent"):
            self._end_step(event, step)
        elif kind in ("RunFailureEvent", "RunCanceledEvent", "RunEnqueuedEvent", "RunStartEvent"):
            self.tell(event["message"].strip().splitlines()[0] if event["message"].strip() else kind)

    def _end_step(self, event: Mapping[str, Any], step: str) -> None:
        has_failed = event["__typename"] == "ExecutionStepFailureEvent"
        if has_failed:
            error = event.get("error") or {}
            text = ((error.get("causes") or [error])[0].get("message") or "no message").strip()
            self.errors.append(f"{step}: {text.splitlines()[0] if text else 'no message'}")
        self._steps.end(step, float(event["timestamp"]) / 1000, has_failed=has_failed)

    def _read_check(self, found: Mapping[str, Any]) -> CheckOutcome:
        values = _values(found["metadataEntries"])
        table = table_of(dg.AssetKey(found["assetKey"]["path"]))
        return CheckOutcome(
            table=table,
            name=found["checkName"],
            month=self.month,
            passed=found["success"],
            blocking=is_blocking(table, found["checkName"]),
            at=str(values.get(READ_AT, "")),
            bad_rows=int(values.get("bad_rows", 0)),
            sample=str(values.get("sample", "")),
            description=found["description"] or "",
            run_id=self.run_id,
        )


def _values(entries: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("text", "mdStr", "intRepr")
    return {row["label"]: next((row[name] for name in names if row.get(name) is not None), None) for row in entries}


def _message(answer: Mapping[str, Any]) -> str:
    errors = [row.get("message", "") for row in answer.get("errors", ())]
    return " ".join([str(answer.get("message", answer.get("__typename", ""))), *errors]).strip()[:500]


@contextmanager
def _stops_are_interrupts() -> Iterator[None]:
    """A request to stop is as Ctrl-C: what cancels a job of a pipeline sends the one, and soon after the other."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
