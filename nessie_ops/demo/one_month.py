"""What `nessie-ops run` does: one month, shown as the demo shows its months, or as JSON."""

from __future__ import annotations

from rich.console import Console

from nessie_ops.cli.output import print_json
from nessie_ops.demo.screen import Screen
from nessie_ops.demo.show import show_failures
from nessie_ops.instance import open_instance
from nessie_ops.month_runs import MonthRun, resume_run, run_month
from nessie_ops.runtime.home import get_home

PUBLISHED, NOT_PUBLISHED, WAITS = 0, 1, 3  # exit codes; 2 is that of a command line that cannot be read


def load_or_resume(*, month: str, source: str, resume: str, all_steps: bool, as_json: bool = False) -> int:
    """Load `month` from the folder `source` ("" for the usual one), or resume the run `resume`; the exit code.

    As JSON, the result alone is on the standard output, and the progress on the other one.
    """
    screen = Screen(Console(stderr=True, highlight=False) if as_json else None)
    with open_instance(get_home()) as instance, screen.steps(month or resume) as on_event:
        if resume:
            result = resume_run(resume, instance, all_steps=all_steps, on_event=on_event)
        else:
            result = run_month(month, instance, source_dir=source, on_event=on_event)
    if as_json:
        print_json(_to_json(result))
    else:
        _show(screen, result)
    return PUBLISHED if result.commit else WAITS if result.merge_request else NOT_PUBLISHED


def _show(screen: Screen, result: MonthRun) -> None:
    if result.commit is not None:
        screen.say(f"{result.month} is published: commit {result.commit}")
    elif result.merge_request is not None:
        number = result.merge_request
        screen.say(f"{result.month} is validated and waits to be merged by merge request {number}.")
        screen.say(f"Its branch is {result.branch}; `nessie-ops merge-request show {number}` tells what is missing.")
    else:
        show_failures(screen, result.checks)
        screen.say(f"\n{result.month} was not published: {result.reason}")
        screen.say(f"Its branch is {result.branch}; `nessie-ops run --resume {result.run_id}` executes the rest again.")


def _to_json(result: MonthRun) -> dict[str, object]:
    return {
        "month": result.month,
        "state": "published" if result.commit else "waiting" if result.merge_request else "failed",
        "runId": result.run_id,
        "branch": result.branch,
        "attempts": result.attempts,
        "commit": result.commit,
        "mergeRequest": result.merge_request,
        "reason": result.reason,
        "checks": [
            {"name": name, "passed": found.passed, "blocking": bool(found.blocking), "summary": found.description}
            for name, found in sorted(result.checks.items())
        ],
    }
