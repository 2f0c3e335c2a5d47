"""What `nessie-ops run` does: one month, shown as the demo shows its months."""

from __future__ import annotations

from nessie_ops.demo.screen import Screen
from nessie_ops.demo.show import show_failures
from nessie_ops.instance import open_instance
from nessie_ops.month_runs import resume_run, run_month
from nessie_ops.runtime.home import get_home


def load_or_resume(*, month: str, source: str, resume: str, all_steps: bool) -> int:
    """Load `month` from the folder `source` ("" for the usual one), or resume the run `resume`; the exit code."""
    screen = Screen()
    with open_instance(get_home()) as instance, screen.steps(month or resume) as on_event:
        if resume:
            result = resume_run(resume, instance, all_steps=all_steps, on_event=on_event)
        else:
            result = run_month(month, instance, source_dir=source, on_event=on_event)
    if result.commit is not None:
        screen.say(f"{result.month} is published: commit {result.commit}")
        return 0
    show_failures(screen, result.checks)
    screen.say(f"\n{result.month} was not published: {result.reason}")
    screen.say(f"Its branch is {result.branch}; `nessie-ops run --resume {result.run_id}` executes the rest again.")
    return 1
