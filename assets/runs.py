"""What a Dagster run says about its branch, its month and its checks.

A run and its re-executions share one branch, named after the first of them, unless it was launched with the tag of
another that was opened for it.  Tags show people and the daemon what the branch's own properties say; where they
differ, the branch is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import dagster as dg
from dagster._core.storage.tags import PARENT_RUN_ID_TAG, PARTITION_NAME_TAG, ROOT_RUN_ID_TAG, USER_TAG

from assets.ci_branches import is_ours
from assets.run_branches import PREFIX, Evidence, branch_name
from assets.transforms.audits import Audit
from assets.transforms.months import Month
from assets.transforms.tables import Table
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import ContentKey, parse_hash

BRANCH_TAG, BASE_TAG, VALIDATED_TAG = "nessie/branch", "nessie/base_hash", "nessie/validated_hash"
MERGED_TAG = "nessie/merge_commit"
REBASE_TAG = "nessie/rebase"
PUBLISH_POOL = "publish_main"  # of the steps that merge into the target: its limit says how many at once
REQUEST_TAG = "nessie/merge_request"  # the number of the request to merge the run's branch
READ_AT = "nessie/read_at"  # metadata of a check: the commit at which it read
_MAX_LINEAGE = 50  # re-executions of re-executions that are looked through

Evaluations = dict[str, dg.AssetCheckEvaluation]
NO_OTHERS: Mapping[str, ContentKey] = MappingProxyType({})


def root_of(run: dg.DagsterRun) -> str:
    """The id of the first of a run's re-executions."""
    return run.root_run_id or run.tags.get(ROOT_RUN_ID_TAG) or run.run_id


def parent_of(run: dg.DagsterRun) -> str | None:
    """The id of the run that this one re-executes.  Runs that sensors launch have it as a tag alone."""
    return run.parent_run_id or run.tags.get(PARENT_RUN_ID_TAG)


def branch_of(run: dg.DagsterRun) -> str:
    """The branch that the run reads and writes: the one its tag names, or its own; another run's it cannot take."""
    named = run.tags.get(BRANCH_TAG, "")
    return branch_name(root_of(run)) if not named or named.startswith(PREFIX) else named


def opened_branch_of(run: dg.DagsterRun, client: NessieClient) -> str:
    """The run's branch; BadRequest when the run has not opened it, as when its assets are launched one by one.

    One that the run's tag names must have been opened for runs, so that none writes to main.
    """
    try:
        branch = client.get_reference(branch_of(run))
        if not branch.name.startswith(PREFIX) and not is_ours(branch):
            raise BadRequest(f"{BRANCH_TAG}: '{branch.name}' was not opened for runs; open one by `nessie-ops ci up`.")
        return branch.name
    except ReferenceNotFound:
        raise BadRequest(
            f"Branch '{branch_of(run)}' does not exist: launch the job load_month, which opens it, "
            "or re-execute all steps of the run if the branch was deleted."
        ) from None


def month_of(run: dg.DagsterRun) -> Month:
    """The month that the run loads; BadRequest when it was launched without a partition."""
    key = run.tags.get(PARTITION_NAME_TAG)
    if key is None:
        raise BadRequest("The run has no partition: launch the job load_month for one month.")
    return Month.parse(key)


def author_of(run: dg.DagsterRun, given: str = "") -> str:
    """Who publishes: as `given`, else the run's tag `user`, else its job."""
    return given or run.tags.get(USER_TAG) or run.job_name


def key_of(table: Table) -> dg.AssetKey:
    """The asset of a table: bronze.flights is bronze/flights."""
    return dg.AssetKey(table.name.split("."))


def content_key_of(table: Table) -> ContentKey:
    """The catalog's key of a table."""
    return ContentKey.of(*table.name.split("."))


def label_of(evaluation: dg.AssetCheckEvaluation) -> str:
    """A check's name as audits give it, such as silver.flights:keys_unique."""
    return f"{'.'.join(evaluation.asset_key.path)}:{evaluation.check_name}"


def stop_if_replaced(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """The last thing to ask before publishing.

    DagsterExecutionInterruptedError when the run was told to stop, Failure when another run executes it again.
    """
    # The status is read again: the one in the context is that of the run's start, and a step that swallowed the
    # interrupt would else publish a run that was told to stop.  A run over its time is told so, and then marked failed.
    found = instance.get_run_by_id(run.run_id)
    told = (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE)
    if found is None or found.status in told:
        raise dg.DagsterExecutionInterruptedError("the run was cancelled, or marked as failed, before it published")
    if again := successor_of(instance, run):
        raise dg.Failure(f"Run {again} executes this one again: only that one publishes.", allow_retries=False)


def lineage(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[dg.DagsterRun]:
    """The run, the one that it re-executes, and so on, newest first."""
    runs = [run]
    while (parent := parent_of(runs[-1])) and len(runs) < _MAX_LINEAGE:
        found = instance.get_run_by_id(parent)
        if found is None:
            break
        runs.append(found)
    return runs


def successor_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """The id of a run that executes this one again; while it is there, this one must not write to main."""
    again = instance.get_runs(dg.RunsFilter(tags={PARENT_RUN_ID_TAG: run.run_id}), limit=1)
    return again[0].run_id if again else None


def remembered(instance: dg.DagsterInstance, run: dg.DagsterRun, tag: str) -> str | None:
    """The newest value of a tag among the run and those that it re-executes."""
    runs = lineage(instance, instance.get_run_by_id(run.run_id) or run)
    return next((found.tags[tag] for found in runs if tag in found.tags), None)


def evaluations(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Evaluations:
    """The newest evaluation of each check in the run or, where it ran none, in those that it re-executes, by label."""
    found: Evaluations = {}
    for ancestor in lineage(instance, run):
        cursor, more = None, True
        while more:
            page = instance.get_records_for_run(
                ancestor.run_id, cursor, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION, ascending=False
            )
            for record in page.records:
                event = record.event_log_entry.dagster_event
                assert event is not None  # of_type gives no others
                evaluation = event.asset_check_evaluation_data
                found.setdefault(label_of(evaluation), evaluation)
            cursor, more = page.cursor, page.has_more
    return found


def evidence_of(
    audits: list[Audit], found: Evaluations, others: Mapping[str, ContentKey] = NO_OTHERS
) -> list[Evidence]:
    """What the blocking audits among `audits`, and the blocking checks `others` of a table each, vouch for.

    BadRequest names those that did not run or did not pass.
    """
    tables = {audit.label: tuple(content_key_of(table) for table in audit.reads) for audit in audits if audit.blocking}
    tables |= {label: (table,) for label, table in others.items()}
    missing = [label for label in tables if label not in found or not found[label].passed]
    if missing:
        raise BadRequest(f"These checks have not passed in this run: {', '.join(missing)}. Re-execute it with them.")
    return [
        Evidence(label, parse_hash(str(found[label].metadata[READ_AT].value), READ_AT), keys)
        for label, keys in tables.items()
    ]
