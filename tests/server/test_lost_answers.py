"""A thousand commits of Nessie's API and of Iceberg's, each sent again since its answer was lost: each applied once."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from nessie_ops.model import NO_ANCESTOR
from nessie_ops.versioning import VersionStore
from tests.iceberg.helpers import SCHEMA, Json, set_properties
from tests.server.helpers import put, table
from tests.server.losses import Insistent, LossyProxy
from tests.server.processes import Served

CLIENTS, COMMITS = 8, 1000
ICE = "/iceberg/v1/main"


class Writer:
    """One client, with a table of its own.  `made` is the messages of its commits; `files` is the metadata it made."""

    def __init__(self, base_uri: str, number: int) -> None:
        self._client, self._number, self._head = Insistent(base_uri, number), number, str(NO_ANCESTOR)
        self.made: list[str] = []
        self.files = 0
        self._table: Json = {}

    def run(self, commits: int) -> None:
        self._table = self._iceberg("namespaces/db/tables", {"name": f"t{self._number}", "schema": SCHEMA}, "create")
        for n in range(1, commits):
            (self._commit, self._change, self._commit, self._transact)[n % 4](n)
        self._client.close()

    def _commit(self, n: int) -> None:
        """A new key through Nessie's API: were it put twice, the second time would conflict."""
        message = f"{self._number}-{n}"
        body = {"commitMeta": {"message": message}, "operations": [put(f"k{message}", table(n))]}
        answer = self._client.post(f"/api/v2/trees/main@{self._head}/history/commit", body)
        assert answer.status_code == 200, answer.text
        self._head = answer.json()["targetBranch"]["hash"]
        self.made.append(message)

    def _change(self, n: int) -> None:
        change = set_properties(self._table, **{f"p{n}": str(n)})
        answer = self._iceberg(f"namespaces/db/tables/t{self._number}", change, "commit")
        assert answer["metadata"]["properties"][f"p{n}"] == str(n)

    def _transact(self, n: int) -> None:
        change = set_properties(self._table, **{f"p{n}": str(n)})
        identifier = {"namespace": ["db"], "name": f"t{self._number}"}
        self._iceberg("transactions/commit", {"table-changes": [change | {"identifier": identifier}]}, "transaction")

    def _iceberg(self, path: str, body: Json, what: str) -> Json:
        answer = self._client.post(f"{ICE}/{path}", body)
        assert answer.status_code == (204 if what == "transaction" else 200), answer.text
        self.files += 1
        loaded: Json = answer.json() if answer.content else {}
        assert not loaded or Path(loaded["metadata-location"].removeprefix("file://")).exists()
        return loaded

    @property
    def attempts(self) -> int:
        return self._client.attempts


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_every_commit_is_applied_exactly_once(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """On PostgreSQL two processes serve, so that a commit may be sent again to another one than at first."""
    store = f"sqlite:///{tmp_path}/c.db" if database == "sqlite" else request.getfixturevalue("postgresql_url")
    options = () if database == "sqlite" else ("--workers", "2")
    with Served(tmp_path, *options, store=store) as served:
        with LossyProxy(served.base_uri, seed=7) as proxy:
            setup = Insistent(proxy.base_uri, CLIENTS)
            assert setup.post(f"{ICE}/namespaces", {"namespace": ["db"]}).status_code == 200
            setup.close()
            writers = [Writer(proxy.base_uri, number) for number in range(CLIENTS)]
            with ThreadPoolExecutor(CLIENTS) as threads:
                list(threads.map(lambda writer: writer.run(COMMITS // CLIENTS), writers))
        assert served.stop(signal.SIGTERM) == (0, ""), "it ends in peace, and has nothing to complain of"
    made = [message for writer in writers for message in writer.made]
    with closing(VersionStore.open(store)) as versions:
        head = versions.get_reference("main").hash
        log = Counter(entry.commit_meta.message for entry in versions.list_log(head, limit=2 * COMMITS))
        names = {str(entry.name) for entry in versions.list_entries(head)}
    assert log.total() == COMMITS + 1 and all(log[message] == 1 for message in made)
    assert names == {"db"} | {f"db.t{n}" for n in range(CLIENTS)} | {f"k{message}" for message in made}
    files = list((tmp_path / "warehouse").rglob("*.metadata.json"))
    assert len(files) == sum(writer.files for writer in writers), "none is lost, and none stays of what was not applied"
    assert len(proxy.losses) == 3 and proxy.losses.total() > COMMITS
    assert sum(writer.attempts for writer in writers) >= proxy.losses.total()
