"""Assets whose tables a job elsewhere writes: spark-submit on a cluster, EMR, Databricks, Kubernetes, by Dagster Pipes.

`external_table` makes the asset and `launch` says where: it calls `run` of a Pipes client of Dagster's with the context
and extras that it is given.  The job writes on the run's branch, of which it learns by the extras, and reports what it
did; its table is then validated and published as all others are.

    branch, table, month   where to write what; month is empty for a table without months
    alias, spark_conf      Spark's settings, which make the branch's tables the catalog `alias`

It reports one materialization whose metadata has `iceberg/snapshot_id`, the snapshot that it wrote and checked, and
each of the checks that it was declared with.  What it does not report fails the step, as does a snapshot that is not
the table's on the branch: then somebody else wrote meanwhile, and the checks vouch for nothing.
"""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.pipes.client import PipesClientCompletedInvocation

from assets.facts import stopwatch
from assets.runs import READ_AT, content_key_of, key_of, month_of, opened_branch_of
from assets.tables import table_asset
from assets.transforms.tables import Table
from nessie_ops.errors import BadRequest, ReferenceConflict
from nessie_ops.model import CommitHash, IcebergTable
from nessie_ops.runtime.supervise import GRACE_S
from resources.catalog import CatalogResource
from resources.spark import DEFAULT_ALIAS

SNAPSHOT = "iceberg/snapshot_id"

Launch = Callable[[dg.AssetExecutionContext, Mapping[str, Any]], PipesClientCompletedInvocation]


def external_table(
    table: Table,
    launch: Launch,
    deps: Sequence[dg.AssetKey | dg.AssetsDefinition],
    *,
    checks: Mapping[str, bool] | None = None,
    elsewhere: bool = True,
) -> dg.AssetsDefinition:
    """The asset of `table`, written by the job that `launch` runs; an asset of that key is replaced by it.

    `checks` are the names of those that the job reports, and whether they block.  `elsewhere` says that the job runs
    on another machine, which cannot reach a catalog inside this process.
    """
    specs = [
        dg.AssetCheckSpec(name, asset=key_of(table), blocking=blocking) for name, blocking in (checks or {}).items()
    ]

    @table_asset(table, deps, kinds={"pipes", "iceberg"}, check_specs=specs)
    def external(context: dg.AssetExecutionContext, catalog: CatalogResource) -> Iterator[dg.MaterializeResult]:
        if elsewhere and catalog.store():
            raise BadRequest("NESSIE_OPS_URI: a job on another machine needs a catalog server; start one, and name it.")
        took, branch = stopwatch(), opened_branch_of(context.run, catalog.client)
        extras = {
            "branch": branch,
            "table": table.name,
            "month": str(month_of(context.run)) if table.monthly else "",
            "alias": DEFAULT_ALIAS,
            "spark_conf": catalog.spark_conf(DEFAULT_ALIAS, branch),
        }
        results = launch(context, extras).get_results(implicit_materializations=False)
        done = _take_over(table, branch, catalog, results, {spec.name: spec.blocking for spec in specs})
        yield done._replace(metadata={**(done.metadata or {}), **took()})

    return external


def spark_submit(script: Path, *options: str, program: str = "spark-submit") -> Launch:
    """Run `script` by `spark-submit` with `options`, such as --master and --conf, and wait for its end.

    Nothing of it outlives a cancelled step.  Context and messages are files of this machine: for --deploy-mode
    cluster, whose driver is elsewhere, give a client with an injector and a reader that both sides reach.
    """

    def launch(context: dg.AssetExecutionContext, extras: Mapping[str, Any]) -> PipesClientCompletedInvocation:
        command = [program, *options, str(script)]
        context.log.info(f"Launching {shlex.join(command)}")
        client = dg.PipesSubprocessClient(termination_timeout_seconds=GRACE_S + 5)
        supervised = [sys.executable, "-m", "nessie_ops.runtime.supervise", *command]
        return client.run(context=context, extras=dict(extras), command=supervised)

    return launch


def _take_over(
    table: Table,
    branch: str,
    catalog: CatalogResource,
    results: Sequence[object],
    checks: Mapping[str, bool],
) -> dg.MaterializeResult:
    """What the job reported, as the result of the step; raises when the report is not whole, or not of this branch."""
    written = [result for result in results if isinstance(result, dg.MaterializeResult)]
    found = [result for result in results if isinstance(result, dg.AssetCheckResult)]
    found += [check for result in written for check in result.check_results or ()]
    missing = set(checks) - {check.check_name for check in found}
    if len(written) != 1 or missing:
        lacks = ", ".join(sorted(str(name) for name in missing)) or "nothing else"
        raise dg.Failure(
            f"The job ended without reporting what it did: {len(written)} materializations, and of checks there lack: "
            f"{lacks}.",
            allow_retries=False,
        )
    metadata = dict(written[0].metadata or {})
    head = _head_with(table, branch, catalog, metadata.get(SNAPSHOT))
    return dg.MaterializeResult(
        asset_key=key_of(table),
        metadata={**metadata, "nessie/branch": branch, "nessie/commit": head},
        check_results=[
            check._replace(
                asset_key=key_of(table),
                severity=dg.AssetCheckSeverity.ERROR if checks[str(check.check_name)] else dg.AssetCheckSeverity.WARN,
                metadata={**(check.metadata or {}), READ_AT: dg.MetadataValue.text(head)},
            )
            for check in found
        ],
    )


def _head_with(table: Table, branch: str, catalog: CatalogResource, reported: object) -> CommitHash:
    """The branch's head, where the table is at the snapshot that was reported."""
    key, head = content_key_of(table), catalog.client.get_reference(branch).hash
    content = catalog.client.get_contents(head, [key]).get(key)
    actual = str(content.snapshot_id) if isinstance(content, IcebergTable) else "no table"
    snapshot = str(reported.value) if isinstance(reported, dg.MetadataValue) else str(reported)
    if snapshot != actual:
        raise ReferenceConflict(
            f"{table.name} on '{branch}' is at snapshot {actual}, and the job reported {snapshot} as {SNAPSHOT}: it "
            "wrote elsewhere, or somebody else wrote as well. Re-execute the run."
        )
    return head
