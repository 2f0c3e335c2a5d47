"""Steps in processes of their own: chosen by configuration, cancelled with the run, resumed when one dies."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from nessie_ops.errors import BadRequest
from schedules.executors import EXECUTOR_VARIABLE, choose, chosen_executor
from tests.dagster.web import wait_for

FOLDER = "folder"  # tag: where steps leave a note of their process, which need not see the test's environment


def noted(context: dg.OpExecutionContext, name: str) -> Path:
    return Path(context.run.tags[FOLDER]) / name


def note(context: dg.OpExecutionContext) -> None:
    noted(context, context.op.name).write_text(str(os.getpid()))


@dg.op(out=dg.Out(dg.Nothing))
def first(context: dg.OpExecutionContext) -> None:
    note(context)


@dg.op(ins={"start": dg.In(dg.Nothing)})
def second(context: dg.OpExecutionContext) -> None:
    if not noted(context, "second").exists():
        note(context)
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("as a failed check does")


@dg.op
def endless(context: dg.OpExecutionContext) -> None:
    note(context)
    while True:
        time.sleep(0.1)


@dg.job(executor_def=chosen_executor)
def dying() -> None:
    second(first())


@dg.job(executor_def=chosen_executor)
def working() -> None:
    endless()


def execute(instance: dg.DagsterInstance, job: Callable[[], object], folder: Path, **tags: str) -> dg.DagsterRun:
    result = dg.execute_job(
        dg.reconstructable(job),
        instance,
        run_config={"execution": {"config": {"multiprocess": {"max_concurrent": 2}}}},
        tags={FOLDER: str(folder), **tags},
        raise_on_error=False,
    )
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    return run


def test_a_step_whose_process_dies_asks_for_the_run_to_be_resumed_and_a_failed_one_does_not(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    own = {"dagster/max_retries": "3", "dagster/retry_on_asset_or_op_failure": "false"}
    run = execute(instance, dying, tmp_path, **own)
    assert {(tmp_path / name).read_text() for name in ("first", "second")} & {str(os.getpid())} == set()
    assert run.status == dg.DagsterRunStatus.FAILURE
    assert run.tags["dagster/retry_on_asset_or_op_failure"] == run.tags["dagster/will_retry"] == "true"

    handed_on = {**own, "dagster/retry_on_asset_or_op_failure": "true"}  # by the daemon
    again = execute(instance, dying, tmp_path, **handed_on)
    assert again.status == dg.DagsterRunStatus.FAILURE
    assert again.tags["dagster/retry_on_asset_or_op_failure"] == again.tags["dagster/will_retry"] == "false"


def test_a_cancelled_run_ends_the_processes_of_its_steps(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    def cancel() -> None:
        wait_for("the step", (tmp_path / "endless").exists)
        [run] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        instance.report_run_canceling(run)
        os.kill(os.getpid(), signal.SIGINT)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    run = execute(instance, working, tmp_path)
    canceller.join()
    assert run.status == dg.DagsterRunStatus.CANCELED
    assert run.tags["dagster/retry_on_asset_or_op_failure"] == "false"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "endless").read_text()), 0)


def test_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EXECUTOR_VARIABLE, raising=False)
    assert choose({}) == ("in_process", None)
    assert choose({"multiprocess": {}}) == ("multiprocess", None)
    monkeypatch.setenv(EXECUTOR_VARIABLE, "multiprocess:4")
    assert choose({}) == ("multiprocess", 4)
    assert choose({"in_process": {}}) == ("in_process", None)
    assert choose({"multiprocess": {"max_concurrent": 2}}) == ("multiprocess", 2)
    with pytest.raises(BadRequest, match="not both"):
        choose({"multiprocess": {}, "in_process": {}})


@pytest.mark.parametrize(
    "text", ["threads", "multiprocess:", "multiprocess:0", "multiprocess:00", "in_process:2", "multiprocess:-1"]
)
def test_a_choice_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(EXECUTOR_VARIABLE, text)
    with pytest.raises(BadRequest, match=EXECUTOR_VARIABLE):
        choose({})
