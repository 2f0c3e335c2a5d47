"""The job that validates what others commit: the rules of the changed tables, at one commit, with a merge request.

It reads by the commit's hash.  Whether the branch still ends there is asked before the work, which would be in vain,
and by the catalog when the request is made.
"""

import dagster as dg
from dagster._core.storage.tags import MAX_RETRIES_TAG, RETRY_ON_ASSET_OR_OP_FAILURE_TAG
from pydantic import Field

from assets.branch_changes import Work, look
from assets.branch_rules import BEFORE, Verdict, evaluate
from assets.code_version import get_code_version
from assets.runs import READ_AT, REQUEST_TAG, key_of, root_of
from assets.transforms.tables import TABLES
from assets.validation import ask, describe, find_request, required_before, set_quarantine
from nessie_ops.client import NessieClient
from nessie_ops.errors import ReferenceNotFound
from nessie_ops.model import CommitHash, parse_hash
from resources.catalog import CatalogResource
from resources.deliveries import Deliveries
from resources.spark import SparkLake


class ValidationConfig(dg.Config):
    """Which `branch`; all else may be left out: `commit` is its head, `target` main.

    `months` and `tables` replace the changed months, and add to the changed tables; without `merge` nothing is asked
    for and nothing quarantined.
    """

    branch: str
    commit: str = ""
    target: str = ""
    months: list[str] = Field(default_factory=list)
    tables: list[str] = Field(default_factory=list)
    merge: bool = True


@dg.op
def validate_commit(
    context: dg.OpExecutionContext,
    config: ValidationConfig,
    catalog: CatalogResource,
    deliveries: Deliveries,
    lake: SparkLake,
) -> None:
    client, target = catalog.client, config.target or catalog.main
    head = _find_head(client, config.branch)
    commit = parse_hash(config.commit, "commit") if config.commit else head
    if commit is None or (config.merge and commit != head):
        context.log.info(f"'{config.branch}' {f'is at {head} by now' if head else 'is gone'}: nothing to validate.")
        return
    work = look(client, config.branch, commit, target)
    if work.is_empty:
        context.log.info(f"{commit} has nothing that '{target}' has not: nothing to validate.")
        return
    waiting = required_before(find_request(client, config.branch, target)) if config.merge else []
    tables = {*config.tables, *(name for name in waiting if name in TABLES)}
    with lake.session(f"@{commit}") as spark:
        for key, value in catalog.spark_conf(BEFORE, f"@{work.base}").items():
            spark.conf.set(key, value)
        verdicts = evaluate(spark, work, deliveries.folder, tables=tables, months=config.months)
    for verdict in verdicts:
        _tell(context, config.branch, work, verdict)
    if config.merge:
        _conclude(context, client, config.branch, target, work, verdicts)


def _conclude(
    context: dg.OpExecutionContext,
    client: NessieClient,
    branch: str,
    target: str,
    work: Work,
    verdicts: list[Verdict],
) -> None:
    """The quarantine is lifted before a green request is made, and set after a red one has its sample rows."""
    red = describe(verdicts)
    if not red:
        set_quarantine(client, branch, work.commit, "")
    run_id, version = root_of(context.run), get_code_version()
    request = ask(client, branch, target, work, verdicts, run_id=run_id, code_version=version)
    if request is None:
        context.log.info(f"'{branch}' has moved on from {work.commit}, or is gone: nothing is asked for.")
        return
    context.instance.add_run_tags(context.run.run_id, {REQUEST_TAG: str(request.number)})
    if red:
        set_quarantine(client, branch, work.commit, red)
    waits = f", waits for {', '.join(request.waits_for)}" if request.waits_for else ""
    context.log.info(f"Merge request {request.number} of {work.commit} is {request.state}{waits}: {red or 'green'}.")


def _tell(context: dg.OpExecutionContext, branch: str, work: Work, verdict: Verdict) -> None:
    """As Dagster's evaluation of an asset check where it is one; in the log where not."""
    audit = verdict.audit
    if audit is None:
        (context.log.info if verdict.passed else context.log.error)(f"{verdict.label}: {verdict.summary}")
        return
    metadata: dict[str, dg.MetadataValue] = {
        READ_AT: dg.MetadataValue.text(work.commit),
        "nessie/branch": dg.MetadataValue.text(branch),
        "months": dg.MetadataValue.text(", ".join(verdict.months)),
        "bad_rows": dg.MetadataValue.int(verdict.bad_rows),
    }
    if verdict.samples:
        metadata["sample"] = dg.MetadataValue.md("\n\n".join(verdict.samples))
    evaluation = dg.AssetCheckEvaluation(
        asset_key=key_of(audit.table),
        check_name=audit.name,
        passed=verdict.passed,
        metadata=metadata,
        severity=dg.AssetCheckSeverity.ERROR if audit.blocking else dg.AssetCheckSeverity.WARN,
        description=verdict.summary,
        blocking=audit.blocking,
    )
    context.log_event(evaluation)  # type: ignore[arg-type]  # it takes these, too


def _find_head(client: NessieClient, branch: str) -> CommitHash | None:
    try:
        return client.get_reference(branch).hash
    except ReferenceNotFound:
        return None


# It only reads until its end, and what it says then may be said again: so whatever went wrong is tried again.
@dg.job(
    tags={MAX_RETRIES_TAG: "2", RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "true"},
    executor_def=dg.in_process_executor,
    description="Evaluate the rules that a commit of somebody else's branch touches, and ask for its merge.",
)
def validate_branch() -> None:
    validate_commit()
