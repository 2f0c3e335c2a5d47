"""32 publishers of one branch at once, through a server of its own process: merged, or in conflict and named.

They do what a run's opening, gate and publishing do in the catalog; half of them merge, half ask by a merge request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier

import pytest

from assets.merge_requests import Next, ask_to_merge, decide, look_at_source, merge_request
from assets.run_branches import MAX_REBASES, RUN_ID, RebaseNeeded, branch_name, open_branch, publish, validate
from nessie_ops.client import NessieClient
from nessie_ops.model import CheckResult, MergeRequestState, NewCommit
from tests.dagster.light import write
from tests.server.processes import Served

PUBLISHERS, RIVALS = 32, 8
ROUNDS = 1 + MAX_REBASES


@dataclass
class Publisher:
    """A run and those that repeat it on top of a newer main, up to its end."""

    number: int
    attempts: int = 0
    conflicts: list[tuple[str, ...]] = field(default_factory=list)  # the tables of each that was met
    is_merged: bool = False

    @property
    def run_id(self) -> str:
        return f"p{self.number}"

    @property
    def tables(self) -> tuple[str, str]:
        """Rivals write a table that is the same for all of them, and one of their own."""
        return ("gold.shared" if self.number < RIVALS else f"gold.g{self.number}", f"silver.s{self.number}")

    def work(self, uri: str, begin: Callable[[], object]) -> None:
        """Load and publish as often as is allowed; the first time once all others have loaded, too."""
        with NessieClient(uri) as client:
            again = True
            while again:
                self.attempts += 1
                branch = open_branch(client, "main", branch_name(self.run_id), ["gold", "silver"]).name
                for table in self.tables:
                    write(client, branch, table)
                validate(client, branch, [])
                if self.attempts == 1:
                    begin()
                again = self._merge(client, branch) if self.number % 2 else self._ask(client, branch)

    def _merge(self, client: NessieClient, branch: str) -> bool:
        """Publish; whether to do all again."""
        try:
            publish(client, "main", branch, NewCommit(message="Load"), release=False)
        except RebaseNeeded as error:
            self.conflicts.append(error.tables)
            return error.again
        self.is_merged = True
        return False

    def _ask(self, client: NessieClient, branch: str) -> bool:
        """Publish by a merge request that is merged at once; whether to do all again."""
        meta, passed = NewCommit(message="Load"), [CheckResult(name="keys", passed=True)]
        asked = ask_to_merge(client, "main", branch, meta, passed, ["keys"])
        assert decide(asked, look_at_source(client, asked)).what is Next.MERGE
        done = merge_request(client, asked.number)
        self.is_merged = done.state is MergeRequestState.MERGED
        if self.is_merged:
            return False
        self.conflicts.append(tuple(str(conflict.key) for conflict in done.conflicts))
        return decide(done, look_at_source(client, done)).what is Next.REBASE


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_all_end_merged_or_in_a_named_conflict(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = None if database == "sqlite" else request.getfixturevalue("postgresql_url")
    publishers, barrier = [Publisher(number) for number in range(PUBLISHERS)], Barrier(PUBLISHERS)
    with Served(tmp_path, store=store) as served, NessieClient(served.base_uri) as client:
        open_branch(client, "main", branch_name("first"), ["gold", "silver"])
        with ThreadPoolExecutor(PUBLISHERS) as pool:
            list(pool.map(lambda one: one.work(served.base_uri, barrier.wait), publishers))
        log = client.list_log(client.get_reference("main").hash, limit=1000)
        merged = Counter(run for entry in log for run in entry.commit_meta.all_properties.get(RUN_ID, ()))
        left = {branch.name.removeprefix("run/"): branch for branch in client.list_references(prefix="run/p")}

    assert merged == Counter(one.run_id for one in publishers if one.is_merged), "each once"
    for one in publishers[RIVALS:]:
        assert one.is_merged and one.attempts == 1, "nobody else wrote its tables"
    rivals = publishers[:RIVALS]
    for one in rivals:
        assert one.conflicts == [("gold.shared",)] * (one.attempts - one.is_merged)
        assert one.is_merged or one.attempts == ROUNDS
    assert {name: branch.properties["conflicts"] for name, branch in left.items()} == {
        one.run_id: "gold.shared" for one in rivals if not one.is_merged
    }
    assert sum(one.is_merged for one in rivals) >= ROUNDS, "in each round at least one of them is merged"
