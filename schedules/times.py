"""When schedules fire: at times of UTC that the project gives them, or that NESSIE_OPS_SCHEDULES gives them instead.

The variable is a JSON object of schedules and cron expressions, and is read when the definitions are loaded.
"""

from __future__ import annotations

import json
import os

from dagster._utils.schedules import is_valid_cron_schedule

from nessie_ops.errors import BadRequest

VARIABLE = "NESSIE_OPS_SCHEDULES"


def get_cron(schedule: str, default: str) -> str:
    """The cron expression of a schedule; BadRequest when the environment's is none, or all of it no JSON object."""
    cron = _given().get(schedule, default)
    if not isinstance(cron, str) or not is_valid_cron_schedule(cron):
        raise BadRequest(f"{VARIABLE}: {schedule}: {str(cron)[:40]!r} is not a cron expression such as '0 1 * * *'.")
    return cron


def check_names(schedules: set[str]) -> None:
    """BadRequest when the environment names a schedule that does not exist."""
    if unknown := sorted(_given().keys() - schedules):
        raise BadRequest(f"{VARIABLE}: {', '.join(unknown)[:200]}: there are only {', '.join(sorted(schedules))}.")


def _given() -> dict[str, object]:
    text = os.environ.get(VARIABLE) or "{}"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadRequest(f"{VARIABLE} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise BadRequest(f'{VARIABLE} must be a JSON object: {{"nightly_collection": "0 1 * * *"}}.')
    return found
