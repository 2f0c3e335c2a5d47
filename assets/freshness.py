"""Freshness of main's tables: asset checks that warn when what is published is older than it should be.

The catalog is asked, so a table is as fresh as its newest commit on main whoever made that, and not as Dagster's last
event.  Commits that change no row, and runs that were reverted, bring nothing new; a run that found a delivery
unchanged does.  Dagster's own freshness policies are evaluated from its events alone, so they are not used here.
"""

import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import dagster as dg
from dagster._utils.schedules import get_latest_completed_cron_tick, is_valid_cron_string

from assets.published import walk
from assets.run_branches import utc_now
from assets.runs import content_key_of, key_of
from assets.said import ASSETS
from assets.transforms.tables import TABLES, Table
from nessie_ops.catalog.runwork import REVERTED
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.gc.rewriting import MAINTENANCE
from nessie_ops.model import CommitHash, CommitMeta, ContentKey
from nessie_ops.model.repository import parse_duration
from resources.catalog import CatalogResource

NAME = "published_in_time"
BY, WITHIN, LATENESS = "NESSIE_OPS_FRESH_BY", "NESSIE_OPS_FRESH_WITHIN", "NESSIE_OPS_FRESH_LATENESS"


class FreshnessConfig(dg.Config):
    """A table must have been published within `lower_bound_delta` before the last tick of `deadline_cron`, or since.

    A tick counts once `lateness` has passed after it.  Durations are those of ISO 8601, such as PT6H.  What is empty
    is NESSIE_OPS_FRESH_BY, NESSIE_OPS_FRESH_WITHIN and NESSIE_OPS_FRESH_LATENESS, else every day by 06:00, within a
    day, without lateness.
    """

    deadline_cron: str = ""
    timezone: str = "UTC"
    lower_bound_delta: str = ""
    lateness: str = ""


class Rule(NamedTuple):
    """What is expected, as values."""

    cron: str
    timezone: str
    within: timedelta
    lateness: timedelta

    def deadline(self, now: datetime) -> datetime:
        """The last tick that counts at `now`."""
        return get_latest_completed_cron_tick(self.cron, now - self.lateness, self.timezone)


class Verdict(NamedTuple):
    """Whether a table is as fresh as it should be; `published` is None when it is not on main."""

    table: Table
    published: CommitMeta | None
    deadline: datetime
    now: datetime
    passed: bool


def to_rule(config: FreshnessConfig) -> Rule:
    """The rule of a configuration; BadRequest names the field that cannot be read."""
    cron = config.deadline_cron or os.environ.get(BY) or "0 6 * * *"
    if not is_valid_cron_string(cron):
        raise BadRequest(f"deadline_cron: '{cron[:80]}' is no cron schedule such as '0 6 * * *'.")
    try:
        ZoneInfo(config.timezone)
    except (ValueError, OSError, KeyError):
        raise BadRequest(f"timezone: '{config.timezone[:80]}' is no time zone such as Europe/Berlin.") from None
    within = config.lower_bound_delta or os.environ.get(WITHIN) or "P1D"
    lateness = config.lateness or os.environ.get(LATENESS) or "PT0S"
    durations = (parse_duration(within, "lower_bound_delta"), parse_duration(lateness, "lateness"))
    return Rule(cron, config.timezone, *durations)


def judge(client: NessieClient, main: str, tables: Iterable[Table], rule: Rule, now: datetime) -> list[Verdict]:
    """One verdict for each table, in order."""
    wanted = {content_key_of(table): table for table in tables}
    head, deadline = client.get_reference(main).hash, rule.deadline(now)
    published = find_published(client, head, client.get_contents(head, wanted))
    oldest = deadline - rule.within
    found = ((table, published.get(key)) for key, table in wanted.items())
    return [
        Verdict(table, meta, deadline, now, meta is not None and meta.commit_time >= oldest) for table, meta in found
    ]


def find_published(client: NessieClient, head: CommitHash, keys: Iterable[ContentKey]) -> dict[ContentKey, CommitMeta]:
    """For each key the newest commit on the line from `head` that brought new data, or a run that found none."""
    missing, found, reverted = set(keys), dict[ContentKey, CommitMeta](), set[str]()
    for entry in walk(client, head, with_operations=True):
        if not missing:
            break
        properties = entry.commit_meta.all_properties
        reverted.update(properties.get(REVERTED, ()))
        if MAINTENANCE in properties or REVERTED in properties or entry.commit_meta.hash in reverted:
            continue
        named, written = properties.get(ASSETS, ()), {operation.key for operation in entry.operations or ()}
        new = {key for key in missing if key in written or str(key) in named}
        found |= dict.fromkeys(new, entry.commit_meta)
        missing -= new
    return found


@dg.multi_asset_check(
    name="check_freshness_of_main",
    specs=[
        dg.AssetCheckSpec(
            NAME, asset=key_of(table), description="main has data as new as is expected, by its commits in the catalog."
        )
        for table in TABLES.values()
    ],
    can_subset=True,
)
def freshness_check(
    context: dg.AssetCheckExecutionContext, config: FreshnessConfig, catalog: CatalogResource
) -> Iterator[dg.AssetCheckResult]:
    selected = {key.asset_key for key in context.selected_asset_check_keys}
    tables = [table for table in TABLES.values() if key_of(table) in selected]
    for verdict in judge(catalog.client, catalog.main, tables, to_rule(config), utc_now()):
        yield _result(verdict)


def _result(verdict: Verdict) -> dg.AssetCheckResult:
    meta, deadline = verdict.published, f"{verdict.deadline:%Y-%m-%d %H:%M %Z}"
    metadata: dict[str, dg.MetadataValue | str | float] = {
        "deadline": dg.MetadataValue.timestamp(verdict.deadline),
        "main": "not there" if meta is None else "there",
    }
    if meta is None:
        told = "main does not have the table"
    else:
        age = verdict.now - meta.commit_time
        metadata |= {
            "nessie/commit": meta.hash,
            "published": dg.MetadataValue.timestamp(meta.commit_time),
            "age_hours": round(age / timedelta(hours=1), 2),
        }
        told = f"published {meta.commit_time:%Y-%m-%d %H:%M}Z"
    return dg.AssetCheckResult(
        passed=verdict.passed,
        asset_key=key_of(verdict.table),
        check_name=NAME,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{told}; due by {deadline}{'' if verdict.passed else ': late'}",
        metadata=metadata,
    )
