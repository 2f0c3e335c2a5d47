"""Where the steps of a run work: one after the other in the run's process, or each in a process of its own.

A choice of configuration, which no asset knows: the run's `{execution: {config: {multiprocess: {max_concurrent: 4}}}}`,
else NESSIE_OPS_EXECUTOR (`multiprocess` or `multiprocess:4`), else in the run's process.  There all steps share one
Spark; processes of their own pay off where Spark is a server that outlives them, as with Spark Connect.  A step whose
process died is as good as a run whose process died: the daemon then resumes the run, and not after a failed check.
"""

import os
from collections.abc import Iterator, Mapping

import dagster as dg
from dagster._core.definitions.executor_definition import multiple_process_executor_requirements
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.base import Executor
from dagster._core.executor.child_process_executor import ChildProcessCrashException
from dagster._core.executor.in_process import InProcessExecutor
from dagster._core.executor.init import InitExecutorContext
from dagster._core.executor.multiprocess import MultiprocessExecutor
from dagster._core.storage.tags import RETRY_ON_ASSET_OR_OP_FAILURE_TAG

from nessie_ops.errors import BadRequest

EXECUTOR_VARIABLE = "NESSIE_OPS_EXECUTOR"
IN_PROCESS, MULTIPROCESS = "in_process", "multiprocess"
_MAX_CONCURRENT = dg.Field(
    int, is_required=False, description="How many steps run at the same time; by default one for each processor."
)


class OwnProcesses(MultiprocessExecutor):
    """Each step in a process of its own; that the run is to be resumed if one dies is told to the daemon by its tag."""

    def execute(
        self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan
    ) -> Iterator[dg.DagsterEvent]:
        instance, run_id = plan_context.instance, plan_context.run_id
        # A resumed run has the tags of the one that lost a process.
        instance.add_run_tags(run_id, {RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "false"})
        for event in super().execute(plan_context, execution_plan):
            if _is_crash(event) and _is_started(plan_context):
                instance.add_run_tags(run_id, {RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "true"})
            yield event


def choose(config: Mapping[str, object]) -> tuple[str, int | None]:
    """in_process or multiprocess, and how many steps at once (None: one for each processor); BadRequest."""
    given = [kind for kind in (IN_PROCESS, MULTIPROCESS) if kind in config]
    if len(given) > 1:
        raise BadRequest(f"execution: give {IN_PROCESS} or {MULTIPROCESS}, not both.")
    if given:
        settings = config[given[0]]
        number = settings.get("max_concurrent") if isinstance(settings, Mapping) else None
        return given[0], number
    text = os.environ.get(EXECUTOR_VARIABLE) or IN_PROCESS
    kind, colon, limit = text.partition(":")
    fits = kind in (IN_PROCESS, MULTIPROCESS) and (not colon or (kind == MULTIPROCESS and limit.isdecimal()))
    if not fits or (limit and int(limit) < 1):
        raise BadRequest(f"{EXECUTOR_VARIABLE}: '{text[:40]}' is neither in_process, multiprocess nor multiprocess:4.")
    return kind, int(limit) if limit else None


@dg.executor(
    name="in_process_or_multiprocess",
    config_schema={
        IN_PROCESS: dg.Field({}, is_required=False, description="All steps in the run's process."),
        MULTIPROCESS: dg.Field(
            {"max_concurrent": _MAX_CONCURRENT}, is_required=False, description="Each step in a process of its own."
        ),
    },
    requirements=lambda config: multiple_process_executor_requirements() if choose(config)[0] == MULTIPROCESS else [],
)
def chosen_executor(context: InitExecutorContext) -> Executor:
    kind, limit = choose(context.executor_config)
    if kind == IN_PROCESS:
        return InProcessExecutor(retries=RetryMode.ENABLED)
    # A server that has imported everything forks the steps: an import takes longer than most of them.
    return OwnProcesses(retries=RetryMode.ENABLED, max_concurrent=limit, start_method="forkserver")


def _is_started(plan_context: PlanOrchestrationContext) -> bool:
    """Whether the run still is to succeed: a process that was told to stop may end as abruptly as one that died."""
    run = plan_context.instance.get_run_by_id(plan_context.run_id)
    return run is not None and run.status == dg.DagsterRunStatus.STARTED


def _is_crash(event: dg.DagsterEvent) -> bool:
    if not event.is_step_failure:
        return False
    error = event.step_failure_data.error
    return error is not None and error.cls_name == ChildProcessCrashException.__name__
