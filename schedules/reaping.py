"""Tidying up after runs and people: branches that ended badly or whose time is over, requests that nobody took up.

Branches of transactions are not among them: they have leases of their own, and go with their transactions.
"""

import os
from datetime import timedelta

import dagster as dg

from assets.merge_requests import list_waiting
from assets.reaping import reap
from assets.run_branches import branch_name, utc_now
from nessie_ops.errors import BadRequest
from nessie_ops.mergerequests.leases import close_old_requests, reap_expired
from resources.catalog import CatalogResource
from schedules.endings import is_in_use, is_live

QUARANTINE_VARIABLE, DEFAULT_QUARANTINE_DAYS = "NESSIE_OPS_QUARANTINE_DAYS", 7
REQUEST_VARIABLE, DEFAULT_REQUEST_DAYS = "NESSIE_OPS_REQUEST_DAYS", 30
_BY = "dagster"


@dg.op(out=dg.Out(dg.Nothing))
def reap_quarantined(context: dg.OpExecutionContext, catalog: CatalogResource) -> None:
    client, instance, now = catalog.client, context.instance, utc_now()
    quarantine_time, request_time = get_quarantine_time(), get_request_time()
    closed = close_old_requests(client, request_time, now, by=_BY)
    waiting = {request.source for request in list_waiting(client)}

    def needed(root: str) -> bool | None:
        return branch_name(root) in waiting or is_live(instance, root)

    marked, deleted = reap(client, needed, quarantine_time, lambda: now)
    expired = reap_expired(client, client, now, lambda name: is_in_use(instance, name), by=_BY)
    transactions = client.tidy_transactions()
    for name, text in expired.unreadable.items():
        context.log.warning(
            f"{name}: its property expires_at is '{text}', which is no time with a time zone; it stays."
        )
    told = {
        "closed_requests": [str(number) for number in sorted({*closed, *expired.closed})],
        "quarantined": marked,
        "deleted": deleted,
        "expired": expired.deleted,
        "expired_but_needed": [f"{name}: {why}" for name, why in expired.kept.items()],
        "unreadable_expires_at": [f"{name}: {text}" for name, text in expired.unreadable.items()],
        "expired_transactions": list(transactions.expired),
        "stray_branches_of_transactions": list(transactions.branches),
    }
    for what, names in told.items():
        context.log.info(f"{what}: {', '.join(names) or 'none'}")
    context.add_output_metadata({what: dg.MetadataValue.json(names) for what, names in told.items()})


@dg.job(
    executor_def=dg.in_process_executor,
    description="Close requests that nobody took up; delete branches that ended badly long ago, or whose time is over; "
    "end transactions whose lease is over.",
)
def reap_branches() -> None:
    reap_quarantined()


def get_quarantine_time() -> timedelta:
    """How long a quarantined branch is kept: NESSIE_OPS_QUARANTINE_DAYS, by default 7.  BadRequest if not a number."""
    return _get_days(QUARANTINE_VARIABLE, DEFAULT_QUARANTINE_DAYS)


def get_request_time() -> timedelta:
    """How long a merge request may wait: NESSIE_OPS_REQUEST_DAYS, by default 30.  BadRequest if not a number."""
    return _get_days(REQUEST_VARIABLE, DEFAULT_REQUEST_DAYS)


def _get_days(variable: str, default: int) -> timedelta:
    text = os.environ.get(variable) or str(default)
    try:
        days = float(text)
    except ValueError:
        days = -1
    if not 0 <= days <= 36_500:
        raise BadRequest(f"{variable}: '{text}' is not a number of days between 0 and 36500.")
    return timedelta(days=days)
