"""What became of trying a change, as values: they are the JSON summary.  Does no I/O."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import NamedTuple

import dagster as dg
import msgspec
from dagster._core.storage.tags import PARTITION_NAME_TAG

from assets.ci_branches import CiBranch
from assets.runs import BRANCH_TAG
from nessie_ops.catalog.changes import Change
from nessie_ops.model import CommitHash

Tell = Callable[[str], None]


class Result(StrEnum):
    """`CHECKS_FAILED`: a blocking check; `RUN_FAILED`: a step, or the run was cancelled."""

    PASSED = "passed"
    CHECKS_FAILED = "checks failed"
    RUN_FAILED = "run failed"


class CheckOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """What a check found for a month, in a run that read the branch at the commit `at`; `sample` is Markdown."""

    table: str
    name: str
    month: str
    passed: bool
    blocking: bool
    at: str
    bad_rows: int
    sample: str
    description: str
    run_id: str

    @property
    def label(self) -> str:
        """Its name in a merge request, such as `silver.flights:keys_unique 2013-01`."""
        return f"{self.table}:{self.name} {self.month}"


class Execution(msgspec.Struct, frozen=True, rename="camel"):
    """A run that has ended: `status` is Dagster's, `reason` says why it did not succeed, `url` where it is shown."""

    run_id: str
    month: str
    status: str
    reason: str
    url: str
    checks: tuple[CheckOutcome, ...] = ()


class Task(NamedTuple):
    """Assets and checks to run for a month on a branch; `source` is the folder of the deliveries, empty: the usual."""

    branch: str
    month: str
    assets: AbstractSet[dg.AssetKey]
    checks: AbstractSet[dg.AssetCheckKey]
    source: str

    @property
    def tags(self) -> dict[str, str]:
        """The tags of its run."""
        return {PARTITION_NAME_TAG: self.month, BRANCH_TAG: self.branch}

    @property
    def config(self) -> dict[str, object]:
        """The configuration of its run."""
        return {"resources": {"deliveries": {"config": {"source_dir": self.source}}}} if self.source else {}


Execute = Callable[[Task, Tell], Execution]  # runs it, tells of its steps, and returns how it ended


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """All of it; `changes` has the selected tables and all else that the branch changed.

    `not_run` names the required checks without a result at the branch's head.
    """

    branch: CiBranch
    result: Result
    reason: str
    months: tuple[str, ...]
    selected: tuple[str, ...]
    changes: tuple[Change, ...]
    checks: tuple[CheckOutcome, ...]
    not_run: tuple[str, ...]
    runs: tuple[Execution, ...]
    commits: tuple[CommitHash, ...]
    merge_request: int | None
    catalog: str
