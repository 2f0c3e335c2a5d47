"""What other clients commit on watched branches, seen by Dagster as observations of its assets.

A sensor follows the reference log, so it sees each change once, whoever made it: Spark, Trino, PyIceberg, the command
line.  What runs of this pipeline publish has their materializations already and is left out.
"""

import os
import re

import dagster as dg

from assets.runs import content_key_of, key_of
from assets.transforms.tables import TABLES
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.model import CommitMeta, Event, EventOperation
from resources.catalog import CatalogResource

WATCH_VARIABLE = "NESSIE_OPS_WATCH"
OURS = "nessie_ops.run_id"  # property of a commit that a run published
MAX_EVENTS = 200  # of one tick: the next one goes on from there
_INTERVAL_S = 10
_ASSETS = {content_key_of(table): key_of(table) for table in TABLES.values()}


def get_watched(default: str) -> re.Pattern[str]:
    """What the names of watched branches match, whole: NESSIE_OPS_WATCH, else `default`; BadRequest."""
    text = os.environ.get(WATCH_VARIABLE) or re.escape(default)
    try:
        return re.compile(text)
    except re.error as error:
        raise BadRequest(f"{WATCH_VARIABLE}: '{text[:80]}' is not a regular expression: {error}.") from None


@dg.sensor(minimum_interval_seconds=_INTERVAL_S, default_status=dg.DefaultSensorStatus.RUNNING)
def observe_commits(context: dg.SensorEvaluationContext, catalog: CatalogResource) -> dg.SensorResult | dg.SkipReason:
    """Observations of the tables that others commit on watched branches; the cursor is the reference log's number."""
    watched = get_watched(catalog.main)
    if not context.cursor:
        start = _newest(catalog.client)
        return dg.SensorResult(cursor=str(start), skip_reason=f"follows the reference log from number {start} on")
    events = catalog.client.list_events(after_seq=int(context.cursor), limit=MAX_EVENTS).events
    found = [seen for event in events if watched.fullmatch(event.reference) for seen in _observe(event)]
    cursor = str(events[-1].seq) if events else context.cursor
    return dg.SensorResult(asset_events=found, cursor=cursor, skip_reason=None if found else "nothing new")


def _newest(client: NessieClient) -> int:
    moves = client.list_moves(limit=1, newest_first=True)
    return moves[0].seq if moves else 0


def _observe(event: Event) -> list[dg.AssetObservation]:
    """One for each of the pipeline's tables that a commit changed which no run of it published."""
    return [
        dg.AssetObservation(_ASSETS[operation.key], metadata=_describe(event, commit.commit_meta, operation))
        for commit in event.commits
        if OURS not in commit.commit_meta.all_properties
        for operation in commit.operations
        if operation.key in _ASSETS
    ]


def _describe(event: Event, meta: CommitMeta, operation: EventOperation) -> dict[str, str | int | dg.MetadataValue]:
    return {
        "nessie/reference": event.reference,
        "nessie/commit": meta.hash,
        "nessie/sequence_number": event.seq,
        "operation": operation.type,
        "message": meta.message,
        "author": ", ".join(meta.authors),
        "committed": dg.MetadataValue.timestamp(meta.commit_time),
    }
