"""What tests of other clients' branches do: evaluate sensors, launch what they ask for, and write as PyIceberg does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any
from urllib.parse import quote

import dagster as dg
from pyiceberg.catalog.rest import RestCatalog

from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.model import CommitHash, NewCommit, Put, ReferenceType
from resources.catalog import CatalogResource
from schedules.merging import follow_merge_requests
from schedules.watching import validate_commits
from tests.versioning.helpers import key, namespace, table

_numbers = count(1)
_definitions = cache(build)  # what takes longest of a tick


def write(client: NessieClient, branch: str, path: str) -> CommitHash:
    """Set a table to a new state without data, as by hand; the branch's new head."""
    at = client.get_reference(branch).hash
    known = client.get_contents(at, [key(path)]).get(key(path))
    puts = [Put(key(path), table(next(_numbers), str(known.id) if known else None))]
    return client.commit(branch, at, NewCommit(message=path, authors=("ann",)), puts).target_branch.hash


def add_namespaces(client: NessieClient, *names: str) -> None:
    """Create namespaces on main that it lacks."""
    at = client.get_reference("main").hash
    puts = [Put(key(name), namespace(name)) for name in names if not client.get_contents(at, [key(name)])]
    if puts:
        client.commit("main", at, NewCommit(message="n"), puts)


def fork(client: NessieClient, name: str, source: str = "main") -> str:
    """A new branch at another's head."""
    client.create_reference(ReferenceType.BRANCH, name, client.get_reference(source).hash)
    return name


def connect(branch: str) -> RestCatalog:
    """PyIceberg on a branch, over the catalog's server."""
    return RestCatalog("foreign", uri=f"{CatalogResource().base_uri()}/iceberg/{quote(branch, safe='')}")


def watch(instance: dg.DagsterInstance, cursor: str | None) -> tuple[Sequence[dg.RunRequest], str, str]:
    """What one evaluation of the sensor that validates launches, its cursor and why it did nothing."""
    found = validate_commits(make_context(instance, cursor))
    if isinstance(found, dg.SkipReason):
        return [], cursor or "", str(found.skip_message)
    assert isinstance(found, dg.SensorResult) and found.cursor
    skipped = found.skip_reason.skip_message if isinstance(found.skip_reason, dg.SkipReason) else found.skip_reason
    return list(found.run_requests or []), found.cursor, skipped or ""


def follow(instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    """What one evaluation of the sensor that merges launches."""
    found = follow_merge_requests(make_context(instance, None))
    assert isinstance(found, dg.SensorResult)
    return list(found.run_requests or [])


def start(instance: dg.DagsterInstance, request: dg.RunRequest) -> dg.DagsterRun:
    """A run that a sensor asked for, which executes nothing yet."""
    job = _definitions().resolve_job_def(request.job_name or "validate_branch")
    return instance.create_run_for_job(job, run_config=request.run_config, tags=dict(request.tags))


def launch(instance: dg.DagsterInstance, request: dg.RunRequest, **config: Any) -> dg.ExecuteInProcessResult:
    """Execute what a sensor asked for."""
    name = request.job_name or "validate_branch"
    return (
        build()
        .resolve_job_def(name)
        .execute_in_process(
            run_config={**request.run_config, **config}, tags=request.tags, instance=instance, raise_on_error=False
        )
    )


def make_context(instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorEvaluationContext:
    """That of a sensor's evaluation."""
    return dg.build_sensor_context(
        instance=instance, cursor=cursor, definitions=_definitions(), resources={"catalog": CatalogResource()}
    )
