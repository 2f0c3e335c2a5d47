"""Clients that write over HTTP whatever happens to the database, and remember what they were told of each commit."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Self

import httpx

from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.check import check
from tests.server.helpers import Api, put, table

WAIT_S = 120
PAUSE_S = 0.02  # after an answer that asks for another try


class Writers:
    """One thread for each name in `branches`, which creates one new table after the other on that branch."""

    def __init__(self, base_uri: str, branches: Sequence[str]) -> None:
        self.branches = sorted(set(branches))
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()  # answered 503: certainly not applied
        self.unknown: set[str] = set()  # answered 504
        self.statuses: Counter[int] = Counter()
        self.wrong: list[str] = []  # answers that nobody should get
        self._base_uri = base_uri
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=each) for each in enumerate(branches)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, status: int, count: int) -> None:
        """Until that many more answers with this status have come."""
        wanted, deadline = self.statuses[status] + count, time.monotonic() + WAIT_S
        while self.statuses[status] < wanted:
            assert time.monotonic() < deadline, f"no {count} times {status}: {self.statuses} {self.wrong[:3]}"
            time.sleep(0.005)

    def _run(self, writer: int, branch: str) -> None:
        api, n = Api(self._base_uri), 0
        while not self._stopping.is_set():
            n += 1
            try:
                self._write(api, branch, f"w{writer}-{n}")
            except httpx.HTTPError as error:
                self.wrong.append(repr(error))
        api.http.close()

    def _write(self, api: Api, branch: str, name: str) -> None:
        found = api.call("GET", f"trees/{branch}")
        if self._judge(found) != 200:
            time.sleep(PAUSE_S)
            return
        head = found.json()["reference"]["hash"]
        body = {"commitMeta": {"message": name}, "operations": [put(name, table(1))]}
        status = self._judge(answer := api.call("POST", f"trees/{branch}@{head}/history/commit", json=body))
        known = {200: self.acknowledged, 503: self.refused, 504: self.unknown}.get(status)
        if known is None:
            self.wrong.append(answer.text)
        else:
            known.add(name)
            self.statuses[status] += 1

    def _judge(self, answer: httpx.Response) -> int:
        if answer.status_code not in (200, 503, 504):
            self.wrong.append(answer.text)
        if (answer.status_code == 503) is not ("retry-after" in answer.headers):
            self.wrong.append(f"{answer.status_code} {answer.headers}")
        return answer.status_code

    def assert_kept(self, url: str) -> None:
        """Every answer was true: what was acknowledged is in the store once, what was refused is not."""
        assert self.wrong == []
        with closing(VersionStore.open(url)) as versions:
            heads = [versions.get_reference(name).hash for name in self.branches]
            log = Counter(
                entry.commit_meta.message
                for head in heads
                for entry in versions.list_log(head, limit=100_000)
                if entry.commit_meta.message.startswith("w")
            )
            tables = {str(entry.name) for head in heads for entry in versions.list_entries(head)}
            assert list(check(versions.store, lambda what, count: None)) == []
        assert set(log.values()) <= {1}
        assert log.keys() <= tables
        assert self.acknowledged <= log.keys() <= self.acknowledged | self.unknown
