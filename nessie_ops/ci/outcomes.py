"""What became of trying a change, as values: they are the JSON summary.  Does no I/O."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Protocol

import dagster as dg
import msgspec

from assets.ci_branches import CiBranch
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


class Execute(Protocol):
    """Runs the assets and checks of a month on a branch, tells of its steps, and returns how it ended."""

    def __call__(
        self,
        branch: str,
        month: str,
        assets: AbstractSet[dg.AssetKey],
        checks: AbstractSet[dg.AssetCheckKey],
        source: str,
        tell: Tell,
    ) -> Execution: ...


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
