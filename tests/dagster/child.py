"""A process that loads a month and can be told where to wait or to die: `child.py MONTH SOURCE [option...]`.

    --pause STEP      after STEP has succeeded, wait for a line on standard input
    --die WHEN        kill this process with SIGKILL `before` or `after` its merge into main
    --die-in STEP     kill it when STEP starts, or with --work SECONDS that much later
    --resume RUN      resume this run instead of starting one
    --assets KEYS     run these, separated by commas, and the rules of their tables, instead of all

Each event of a step is printed as a line `EVENT STEP`, the end as `END <run id> <attempts> <commit>`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading

import dagster as dg
from dagster._core.storage.tags import PARTITION_NAME_TAG

from nessie_ops.ci.selection import checks_of, table_of
from nessie_ops.client import NessieClient
from nessie_ops.driving import OnEvent, create_part, execute, get_job, without_console
from nessie_ops.instance import open_instance
from nessie_ops.model import CommitHash, Merge, MergeResult
from nessie_ops.month_runs import resume_run, run_month
from nessie_ops.runtime.home import get_home
from schedules.jobs import load_month

_merge = NessieClient.merge


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("month")
    parser.add_argument("source")
    parser.add_argument("--pause")
    parser.add_argument("--die", choices=("before", "after"))
    parser.add_argument("--die-in")
    parser.add_argument("--work", type=float, default=0)
    parser.add_argument("--resume")
    parser.add_argument("--assets", type=lambda text: {dg.AssetKey.from_user_string(key) for key in text.split(",")})
    options = parser.parse_args()
    if options.die:
        NessieClient.merge = _die_before if options.die == "before" else _die_after  # type: ignore[method-assign]

    def on_event(event: dg.DagsterEvent) -> None:
        if event.step_key and event.event_type in (dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_SUCCESS):
            print(event.event_type_value, event.step_key, flush=True)
        if event.event_type == dg.DagsterEventType.STEP_START and event.step_key == options.die_in:
            if not options.work:
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Timer(options.work, os.kill, (os.getpid(), signal.SIGKILL)).start()
        if event.is_step_success and event.step_key == options.pause:
            options.pause = None  # once, not when re-based
            sys.stdin.readline()

    with open_instance(get_home()) as instance:
        if options.assets:
            print("END", run_part(instance, options, on_event), flush=True)
            return
        if options.resume:
            result = resume_run(options.resume, instance, on_event=on_event)
        else:
            result = run_month(options.month, instance, source_dir=options.source, on_event=on_event)
    print("END", result.run_id, result.attempts, result.commit, result.reason, flush=True)


def run_part(instance: dg.DagsterInstance, options: argparse.Namespace, on_event: OnEvent) -> str:
    """The id of a run of some assets, which has ended."""
    job, checks = get_job(load_month.name), checks_of(table_of(key) for key in options.assets)
    config = without_console({"resources": {"deliveries": {"config": {"source_dir": options.source}}}})
    run = create_part(instance, job, options.assets, checks, config, {PARTITION_NAME_TAG: options.month})
    execute(instance, job, run, on_event)
    return run.run_id


def _die_before(self: NessieClient, branch: str, expected: CommitHash | None, request: Merge) -> MergeResult:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _die_after(self: NessieClient, branch: str, expected: CommitHash | None, request: Merge) -> MergeResult:
    _merge(self, branch, expected, request)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


if __name__ == "__main__":
    main()
