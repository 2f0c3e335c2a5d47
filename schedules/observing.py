"""What other clients commit on watched branches, seen by Dagster as observations of its assets.

A sensor follows the reference log, so it sees each change once, whoever made it: Spark, Trino, PyIceberg, the command
line.  What runs of this pipeline publish has their materializations already and is left out.  Of a run's branch that a
person merged from elsewhere, by its merge request, a run of merge_one_request tells, which finds it merged.
"""

import os
import re
from collections.abc import Iterator

import dagster as dg
import msgspec

from assets.run_branches import RUN_ID
from assets.runs import REQUEST_TAG, content_key_of, key_of
from assets.transforms.tables import TABLES
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, ReferenceNotFound, StoreUnavailable
from nessie_ops.mergerequests.mergerequests import NUMBER
from nessie_ops.model import CommitMeta, Event, EventCommit, EventOperation, LogEntry, PutLog
from resources.catalog import CatalogResource
from schedules.feed import find_lost, get_newest, read_cursor
from schedules.merging import merge_one_request

WATCH_VARIABLE = "NESSIE_OPS_WATCH"
OURS = "nessie_ops.run_id"  # property of a commit that a run made
MAX_EVENTS = 200  # of one tick: the next one goes on from there
MAX_COMMITS = 1_000  # of one event
_INTERVAL_S = 10
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_ASSETS = {content_key_of(table): key_of(table) for table in TABLES.values()}


def get_watched(default: str) -> re.Pattern[str]:
    """What the names of watched branches match, whole: NESSIE_OPS_WATCH, else `default`; BadRequest."""
    text = os.environ.get(WATCH_VARIABLE) or re.escape(default)
    try:
        return re.compile(text)
    except re.error as error:
        raise BadRequest(f"{WATCH_VARIABLE}: '{text[:80]}' is not a regular expression: {error}.") from None


@dg.sensor(job=merge_one_request, minimum_interval_seconds=_INTERVAL_S, default_status=dg.DefaultSensorStatus.RUNNING)
def observe_commits(context: dg.SensorEvaluationContext, catalog: CatalogResource) -> dg.SensorResult | dg.SkipReason:
    """Observations of the tables that others commit on watched branches; the cursor is the reference log's number."""
    watched, seq = get_watched(catalog.main), read_cursor(context.cursor).seq
    try:
        newest = get_newest(catalog.client)
        page = catalog.client.list_events(after_seq=seq or 0, limit=MAX_EVENTS).events if seq is not None else ()
        events = [_complete(catalog.client, event) for event in page]
    except StoreUnavailable as error:
        return dg.SkipReason(f"nothing is lost, it goes on from number {seq}: {error.message}")
    if lost := find_lost(seq, newest, events[0].seq if events else None):
        return dg.SensorResult(
            cursor=str(newest), skip_reason=f"follows the reference log from number {newest} on, since {lost}"
        )
    found = [seen for event in events if watched.fullmatch(event.reference) for seen in _observe(event)]
    runs = [run for event in events if event.reference == catalog.main for run in _tell(context.instance, event)]
    cursor = str(events[-1].seq if events else seq)
    return dg.SensorResult(
        runs, asset_events=found, cursor=cursor, skip_reason=None if found or runs else "nothing new"
    )


def _complete(client: NessieClient, event: Event) -> Event:
    """An event with all its commits, of which it leaves some out when they are many or large."""
    if event.hash_after is None or not (event.has_more or any(commit.has_more for commit in event.commits)):
        return event
    try:
        log = client.list_log(event.hash_after, limit_hash=event.hash_before, limit=MAX_COMMITS, with_operations=True)
    except ReferenceNotFound:  # they are purged by now
        return event
    commits = (_to_commit(entry) for entry in reversed(log) if entry.commit_meta.hash != event.hash_before)
    return msgspec.structs.replace(event, commits=tuple(commits))


def _to_commit(entry: LogEntry) -> EventCommit:
    operations = entry.operations or ()
    kinds = ((each.key, "PUT" if isinstance(each, PutLog) else "DELETE") for each in operations)
    return EventCommit(entry.commit_meta, tuple(EventOperation(kind, key) for key, kind in kinds))


def _observe(event: Event) -> list[dg.AssetObservation]:
    """One for each of the pipeline's tables that a commit changed which no run of it published."""
    return [
        dg.AssetObservation(_ASSETS[operation.key], metadata=_describe(event, commit.commit_meta, operation))
        for commit in event.commits
        if not _is_materialized(commit.commit_meta)
        for operation in commit.operations
        if operation.key in _ASSETS
    ]


def _is_materialized(meta: CommitMeta) -> bool:
    """Whether a run told of the commit's tables: it wrote or published them.  A change's merge is no run's."""
    properties = meta.all_properties
    return RUN_ID in properties or (OURS in properties and NUMBER not in properties)


def _tell(instance: dg.DagsterInstance, event: Event) -> Iterator[dg.RunRequest]:
    """The runs that tell of what was merged for runs, by requests for which none of ours was launched."""
    for number in filter(None, (_find_number(commit.commit_meta) for commit in event.commits)):
        known = dg.RunsFilter(job_name=merge_one_request.name, tags={REQUEST_TAG: number})
        if not instance.get_runs(known, limit=1):
            config = {"ops": {"merge_branch": {"config": {"number": int(number)}}}}
            yield dg.RunRequest(f"tell {number}", config, {REQUEST_TAG: number}, job_name=merge_one_request.name)


def _find_number(meta: CommitMeta) -> str:
    """The number of the request that merged a run's branch; empty when the commit names none."""
    properties = meta.all_properties
    numbers = properties.get(NUMBER, ()) if RUN_ID in properties else ()
    return numbers[0] if len(numbers) == 1 and _NUMBER.fullmatch(numbers[0]) else ""


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
