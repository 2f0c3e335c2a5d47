"""Collections as runs in this process, and what they say of themselves."""

from __future__ import annotations

from typing import Any

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from assets.collection import shards
from nessie_ops.definitions import build

KEYS = shards.get_partition_keys()
ALL = {ASSET_PARTITION_RANGE_START_TAG: KEYS[0], ASSET_PARTITION_RANGE_END_TAG: KEYS[-1]}


def run(
    instance: dg.DagsterInstance, job: str, config: Any = None, tags: dict[str, str] | None = None, **options: Any
) -> dg.ExecuteInProcessResult:
    """Run a job, by default on all shards."""
    definition = build().resolve_job_def(job)
    tags = ALL if tags is None else tags
    return definition.execute_in_process(config, instance=instance, tags=tags, raise_on_error=False, **options)


def errors(result: dg.ExecuteInProcessResult) -> str:
    """The messages of what went wrong."""
    found = []
    for event in result.get_step_failure_events():
        error = event.step_failure_data.error
        while error:
            found.append(error.message)
            error = error.cause
    return "\n".join(found)


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str | None, Any]:
    """By partition: the metadata of an asset's materializations in a run."""
    events = [
        event.step_materialization_data.materialization
        for event in result.get_asset_materialization_events()
        if event.asset_key == dg.AssetKey(asset)
    ]
    assert len({event.partition for event in events}) == len(events)
    return {event.partition: {name: value.value for name, value in event.metadata.items()} for event in events}
