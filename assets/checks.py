"""Asset checks: the rules of each table, evaluated on the run's branch.  Blocking ones stop all that depends on them.

Each result carries the commit at which it read, so that `validated` can tell what it vouches for.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import dagster as dg

from assets.facts import DURATION, Facts, link_to, of_branch
from assets.runs import READ_AT, content_key_of, key_of, month_of, opened_branch_of
from assets.transforms.audits import Audit, Finding, run_audits
from assets.transforms.deliveries import count_rows
from assets.transforms.months import FIRST, Month
from assets.transforms.rules import bronze_rules, gold_rules, silver_rules
from assets.transforms.tables import DELIVERED, TABLES, Table
from nessie_ops.errors import ReferenceConflict
from resources.catalog import CatalogResource
from resources.deliveries import Deliveries
from resources.spark import SparkLake


def all_rules(month: Month, delivered: Mapping[str, int] | None = None) -> list[Audit]:
    """The rules of all layers; `delivered` has the rows of files by table name, and is not needed for names alone."""
    return [*bronze_rules(month, delivered or {}), *silver_rules(month), *gold_rules(month)]


def _of(table: Table, rules: Iterable[Audit]) -> list[Audit]:
    return [audit for audit in rules if audit.table == table]


def _spec(audit: Audit) -> dg.AssetCheckSpec:
    others = [key_of(table) for table in audit.reads if table != audit.table]
    return dg.AssetCheckSpec(
        audit.name,
        asset=key_of(audit.table),
        description=audit.description,
        blocking=audit.blocking,
        additional_deps=others,
    )


def _build(table: Table) -> dg.AssetChecksDefinition:
    """One step that evaluates all checks of `table`; one per table, as it blocks the tables made from this one."""
    specs = [_spec(audit) for audit in _of(table, all_rules(Month.parse(FIRST)))]

    @dg.multi_asset_check(name=f"check_{table.name.replace('.', '_')}", specs=specs)
    def check(
        context: dg.AssetCheckExecutionContext, catalog: CatalogResource, deliveries: Deliveries, lake: SparkLake
    ) -> Iterator[dg.AssetCheckResult]:
        month = month_of(context.run)
        delivered: dict[str, int] = {}
        if table in DELIVERED:
            delivered[table.name] = count_rows(deliveries.folder, table, month if table.monthly else None)
        yield from _evaluate(context.run, catalog, lake, _of(table, all_rules(month, delivered)))

    return check


all_checks = [_build(table) for table in TABLES.values()]


def _evaluate(
    run: dg.DagsterRun, catalog: CatalogResource, lake: SparkLake, audits: Sequence[Audit]
) -> list[dg.AssetCheckResult]:
    client = catalog.client
    branch = opened_branch_of(run, client)
    found = client.get_reference(branch)
    read_at = found.hash
    started = time.monotonic()
    with lake.session(branch) as spark:
        findings = run_audits(spark, audits)
    seconds = round((time.monotonic() - started) / len(findings), 3)  # all are counted by one statement
    keys = [content_key_of(table) for table in dict.fromkeys(table for audit in audits for table in audit.reads)]
    # Other tables may be written meanwhile: steps that do not depend on each other run side by side.
    if client.get_contents(client.get_reference(branch).hash, keys) != client.get_contents(read_at, keys):
        raise ReferenceConflict(f"'{branch}' was written to while its checks were reading; re-execute the run.")
    where = {**of_branch(found), READ_AT: read_at}
    return [_result(finding, {**where, **link_to(catalog, read_at), DURATION: seconds}) for finding in findings]


def _result(finding: Finding, facts: Facts) -> dg.AssetCheckResult:
    audit = finding.audit
    metadata: Facts = {**facts, "bad_rows": finding.bad_rows}
    if not finding.passed:
        metadata["sample"] = dg.MetadataValue.md(finding.markdown)
    return dg.AssetCheckResult(
        passed=finding.passed,
        asset_key=key_of(audit.table),
        check_name=audit.name,
        severity=dg.AssetCheckSeverity.ERROR if audit.blocking else dg.AssetCheckSeverity.WARN,
        description=audit.description if finding.passed else f"{finding.bad_rows} rows break: {audit.description}",
        metadata=metadata,
    )
