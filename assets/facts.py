"""What runs, assets and checks show in Dagster of the catalog: branch, base and commits, and what changed by how much.

Figures are numbers, so that Dagster plots them over time.  They are told after the fact: what cannot be read any more
is left out, and fails nothing.  Knows no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from assets.run_branches import BASE, BASE_COMMIT, BRANCH_NAME, VALIDATED_COMMIT
from assets.runs import BASE_TAG, BRANCH_TAG, MERGED_TAG, VALIDATED_TAG, Evaluations, content_key_of, key_of
from assets.transforms.tables import TABLES, Table
from nessie_ops.catalog.changes import Change, find_change, list_changes, read_through, sum_changes
from nessie_ops.catalog.markdown import describe_changes, to_table
from nessie_ops.errors import NessieOpsError
from nessie_ops.model import CommitHash, CommitMeta, Reference
from resources.catalog import CatalogResource

DURATION = "duration_s"
COMMIT, TARGET = "nessie/commit", "nessie/target"
_TAGS = {BRANCH_TAG: BRANCH_TAG, BASE_TAG: BASE_TAG, VALIDATED_TAG: VALIDATED_TAG, MERGED_TAG: COMMIT}

Facts = dict[str, Any]


def stopwatch() -> Callable[[], Facts]:
    """A function that gives the seconds since this call, as a fact."""
    started = time.monotonic()
    return lambda: {DURATION: round(time.monotonic() - started, 3)}


def link_to(catalog: CatalogResource, commit: str, name: str = "nessie/catalog") -> Facts:
    """Where the catalog's server shows a commit; nothing when the catalog is an embedded one."""
    url = catalog.state_url(commit)
    return {name: dg.MetadataValue.url(url)} if url else {}


def of_branch(branch: Reference) -> dict[str, str]:
    """Its name and, when a run opened it, the commit that it began at."""
    return {BRANCH_TAG: branch.name, **({BASE_TAG: branch.properties[BASE]} if BASE in branch.properties else {})}


def of_table(catalog: CatalogResource, branch: str, table: Table) -> Facts:
    """A table after a write on a run's branch, and what became of it since the branch's base."""
    client = catalog.client
    found = client.get_reference(branch)
    base = CommitHash(found.properties.get(BASE, found.hash))
    change = find_change(client, base, found.hash, content_key_of(table), read_through(client))
    return {**of_branch(found), COMMIT: found.hash, **link_to(catalog, found.hash), **_of_change(change)}


def of_merge(catalog: CatalogResource, target: str, commit: CommitHash) -> tuple[Facts, list[dg.AssetObservation]]:
    """A commit that merged a run's branch into `target`, over all tables; and an observation of each of our tables.

    When the states cannot be read, as after a collection of old ones, the reason stands for the figures.
    """
    client = catalog.client
    where: Facts = {COMMIT: commit, TARGET: target, **link_to(catalog, commit)}
    try:
        meta = client.get_commit(commit)
        where = {**_where(meta), **where}
        changes = list_changes(client, meta.parent_commit_hashes[0], commit, read_through(client))
    except NessieOpsError as error:
        return {**where, "changes": dg.MetadataValue.md(f"Cannot be read: {error.message}")}, []
    assets = {table.name: key_of(table) for table in TABLES.values()}
    month = next(iter(meta.all_properties.get("nessie_ops.partition", ())), None)
    observations = [
        dg.AssetObservation(
            assets[change.key],
            partition=month if TABLES[change.key].monthly else None,
            metadata={**where, **_of_change(change)},
        )
        for change in changes
        if change.key in assets
    ]
    added, removed = sum_changes(changes)
    sums = {
        "tables": sum(change.type == "ICEBERG_TABLE" for change in changes),
        "rows_added": added.rows,
        "rows_removed": removed.rows,
        "files_added": added.files,
        "files_removed": removed.files,
        "bytes_added": added.size_bytes,
        "bytes_removed": removed.size_bytes,
    }
    return {**where, **sums, "changes": dg.MetadataValue.md(describe_changes(changes))}, observations


def of_results(found: Evaluations) -> Facts:
    """What the checks of a run came to: `bad_rows` of all, how many warned, and a table of them."""
    rows = {label: _bad_rows(found[label]) for label in sorted(found)}
    lines = (
        (label, "passed" if found[label].passed else "failed" if found[label].blocking else "warned", count)
        for label, count in rows.items()
    )
    table = dg.MetadataValue.md(to_table(("Check", "Result", "Bad rows"), lines))
    warned = sum(not evaluation.passed for evaluation in found.values())
    return {"bad_rows": sum(rows.values()), "warned": warned, "results": table}


def _bad_rows(evaluation: dg.AssetCheckEvaluation) -> int:
    value = evaluation.metadata.get("bad_rows")
    return int(str(value.value)) if value else 0


def tags_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """The tags by which a run names its branch, base, validated and merge commit, of the facts of its merge."""
    return {tag: str(facts[name]) for tag, name in _TAGS.items() if name in facts}


def _where(meta: CommitMeta) -> Facts:
    names = {BRANCH_TAG: BRANCH_NAME, BASE_TAG: BASE_COMMIT, VALIDATED_TAG: VALIDATED_COMMIT}
    return {tag: meta.all_properties[name][0] for tag, name in names.items() if name in meta.all_properties}


def _of_change(change: Change) -> Facts:
    facts: Facts = {
        "dagster/row_count": change.after.rows,
        "rows_added": change.added.rows,
        "rows_removed": change.removed.rows,
        "files": change.after.files,
        "files_added": change.added.files,
        "files_removed": change.removed.files,
        "bytes": change.after.size_bytes,
        "bytes_added": change.added.size_bytes,
        "bytes_removed": change.removed.size_bytes,
        "changes": dg.MetadataValue.md(describe_changes([change])),
    }
    if change.snapshot_after is not None:
        facts["iceberg/snapshot_id"] = str(change.snapshot_after)  # has more digits than a page's numbers
    return facts
