"""What a commit says of the run that made it: run, job, partition, version of the code, and where Dagster shows it."""

from __future__ import annotations

import os

import dagster as dg
from dagster._core.storage.tags import PARTITION_NAME_TAG

from assets.code_version import get_code_version
from nessie_ops.client import without_user
from nessie_ops.errors import BadRequest

URL_VARIABLE = "NESSIE_OPS_DAGSTER_URL"
ASSETS = "nessie_ops.assets"  # the tables that were loaded
PARTITION = "nessie_ops.partition"


def properties_of(run: dg.DagsterRun) -> dict[str, str]:
    """Properties of the commits of a run; `nessie_ops.run_url` when it is known where Dagster's pages are."""
    url, month = run_url(run.run_id), run.tags.get(PARTITION_NAME_TAG)
    return {
        "nessie_ops.run_id": run.run_id,
        "nessie_ops.job": run.job_name,
        **({PARTITION: month} if month else {}),
        "nessie_ops.code_version": get_code_version(),
        **({"nessie_ops.run_url": url} if url else {}),
    }


def run_url(run_id: str) -> str:
    """The run's page at NESSIE_OPS_DAGSTER_URL, such as `https://dagster.example`; empty without, BadRequest."""
    base = without_user(os.environ.get(URL_VARIABLE, "").rstrip("/"))
    if not base:
        return ""
    if not base.startswith(("http://", "https://")) or not base.isascii():
        raise BadRequest(f"{URL_VARIABLE}: '{base[:80]}' does not begin with http:// or https://.")
    return f"{base}/runs/{run_id}"
