"""Clients of a real server that run random transactions over few keys, and remember what they saw and were told.

Each request goes to any of the servers; when one is gone, the request is sent again, to whichever answers.  Answers
are lost: the request is sent, and the connection closed.  What a client writes it writes once, by its key.
Knows what a transaction is to its client, and nothing of what it should see.
"""

from __future__ import annotations

import random
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import httpx

from tests.server.helpers import delete, key, put, table
from tests.transactions.checker import Level, Outcome

PAIR = ("a", "b")  # what they hold together never changes
PLAIN = ("c", "n.x", "n.y", "n.z")
TABLES = ("ice.t", "ice.u")  # written by the Iceberg API alone
TOTAL = 100
PATIENCE_S = 120
LOST = 0.06  # how likely the answer to a write is lost
GONE = (502, 503, 504)

Json = dict[str, Any]


class Seen(NamedTuple):
    """What a request saw; `since` and `until` are heads of the target before it, and after its answer."""

    values: dict[str, str | None]
    listed: dict[str, frozenset[str]] = {}  # noqa: RUF012
    since: str = ""
    until: str = ""
    is_difference: bool = False  # what is not among the values is as it was at the start


class Wrote(NamedTuple):
    values: dict[str, str | None]
    over: dict[str, str | None]


@dataclass
class Run:
    """What a client remembers of a transaction."""

    id: str
    level: Level
    start: str
    events: list[Seen | Wrote] = field(default_factory=list)
    outcome: Outcome = Outcome.DROPPED
    commit: str = ""
    since: str = ""
    until: str = ""


class Ended(Exception):
    """The transaction's branch is gone."""


def value_of(content: Json | None) -> str | None:
    """What tells this state of a content from all others."""
    return content and str(content.get("metadataLocation") or content["id"])


class Web:
    """Requests to any of several servers, until one answers."""

    def __init__(self, uris: list[str], rng: random.Random) -> None:
        self._uris, self._rng = uris, rng
        self._http = httpx.Client(timeout=60, trust_env=False)
        self.lost = 0
        self.sent = 0  # how often the last request was

    def send(
        self, method: str, path: str, body: Any = None, *, may_lose: bool = False, **headers: str
    ) -> httpx.Response:
        """The answer.  With `may_lose` the request may have been sent before, by somebody who did not wait for it."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.sent = 0
        if may_lose and self._rng.random() < LOST:
            self.send_and_leave(method, path, body, headers)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(httpx.TransportError):
                uri = self._rng.choice(self._uris)
                self.sent += 1
                answer = self._http.request(method, uri + path, json=body, headers=headers)
                if answer.status_code not in GONE:
                    return answer
            assert time.monotonic() < deadline, f"nobody answers {method} {path}"
            time.sleep(0.02)

    def send_and_leave(self, method: str, path: str, body: Any, headers: dict[str, str]) -> None:
        """Send a request and hang up: at once, or as the answer begins."""
        self.lost += 1
        self.sent += 1
        uri = self._rng.choice(self._uris)
        request = self._http.build_request(method, uri + path, json=body, headers=headers)
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        place = urlsplit(uri)
        with suppress(OSError), socket.create_connection((place.hostname, place.port), timeout=60) as server:
            server.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + request.read())
            if self._rng.random() < 0.5:
                server.recv(1)


class Worker:
    """One client; `runs` are its transactions.  `heads` holds a recent head of main, for all clients."""

    def __init__(self, uris: list[str], seed: int, heads: list[str]) -> None:
        self._rng = random.Random(seed)
        self.web = Web(uris, self._rng)
        self._heads, self._seed = heads, seed
        self._written = 0
        self.runs: list[Run] = []

    def step(self) -> None:
        """One transaction, or one commit to main beside them."""
        if self._rng.random() < 0.25:
            self._commit_plainly()
        else:
            self._transact()

    # -- what there is to do ---------------------------------------------------------------------

    def _transact(self) -> None:
        level = self._rng.choice(list(Level))
        lease = 1 if self._rng.random() < 0.05 else 600
        begun = self.web.send("POST", "/api/v2/transactions", {"isolation": level, "leaseSeconds": lease}).json()
        run = Run(begun["id"], level, begun["startHash"])
        self.runs.append(run)
        with suppress(Ended):
            for _ in range(self._rng.randint(1, 4)):
                self._act(run, begun["branch"])
        self._end(run)

    def _act(self, run: Run, branch: str) -> None:
        reads = (self._get_one, self._get_many, self._list, self._list_all, self._load, self._exists, self._compare)
        writes = (self._put, self._put, self._transfer, self._change_table, self._change_tables)
        self._rng.choice(self._rng.choice((reads, writes)))(run, branch)

    def _end(self, run: Run) -> None:
        choice, path = self._rng.random(), f"/api/v2/transactions/{run.id}"
        if choice < 0.08:
            return  # forgotten
        if choice < 0.16:
            self.web.send("POST", f"{path}/rollback", {}, may_lose=True)
            return
        run.since = self._heads[0]
        if choice < 0.2:
            run.outcome = Outcome.UNKNOWN
            self.web.send_and_leave("POST", f"{path}/commit", {}, {})
            return
        answer = self.web.send("POST", f"{path}/commit", {}, may_lose=True)
        run.until = self._head()
        if answer.status_code == 200:
            run.outcome, run.commit = Outcome.COMMITTED, answer.json()["commitHash"]
        else:
            assert answer.status_code == 409, answer.text
            again = Outcome.UNKNOWN if self.web.sent > 1 else Outcome.REFUSED  # the first one may still be at work
            run.outcome = Outcome.DROPPED if answer.json()["errorCode"] == "TRANSACTION_NOT_OPEN" else again

    def _commit_plainly(self) -> None:
        """A transaction of one commit, by a client that knows nothing of transactions."""
        self._written += 1
        run = Run(f"plain-{self._seed}-{self._written}", Level.READ_COMMITTED, "")
        self.runs.append(run)
        run.since = self._heads[0]
        names = self._rng.sample(PLAIN, self._rng.randint(1, 2)) if self._rng.random() < 0.6 else list(PAIR)
        seen, found, run.start = self._look(run, "main", names)
        answer = self._commit("main", run.start, seen, found, run.id)
        run.until = self._head()
        run.outcome = Outcome.COMMITTED if answer else Outcome.REFUSED
        if answer:
            run.events.append(Wrote(answer[0], {name: seen[name] for name in answer[0]}))
            run.commit = answer[1]
        else:
            run.events.append(Wrote({}, {}))

    # -- reading -----------------------------------------------------------------------------------

    def _head(self) -> str:
        head = self.web.send("GET", "/api/v2/trees/main").json()["reference"]["hash"]
        self._heads[0] = head
        return str(head)

    def _get(self, run: Run, path: str) -> tuple[Any, str]:
        """(the JSON at a path, None when it is not there; a head before it was asked for)."""
        since = self._heads[0]
        return self._read(self.web.send("GET", path)), since

    def _read(self, answer: httpx.Response) -> Any:
        _require_branch(answer)
        assert answer.status_code in (200, 204, 404), answer.text
        return answer.json() if answer.status_code == 200 and answer.content else None

    def _note(self, run: Run, since: str, values: dict[str, str | None], **listed: frozenset[str]) -> None:
        until = self._head() if run.level is Level.READ_COMMITTED else ""
        run.events.append(Seen(values, listed, since, until))

    def _get_one(self, run: Run, branch: str) -> None:
        name, ref = self._any(), quote(branch, safe="")
        paths = (f"/api/v2/trees/{ref}/contents/{name}", f"/api/v1/contents/{name}?ref={ref}")
        path = self._rng.choice(paths)
        found, since = self._get(run, path)
        self._note(run, since, {name: value_of(found and found.get("content", found))})

    def _any(self) -> str:
        return self._rng.choice((*PAIR, *PLAIN, *TABLES))

    def _get_many(self, run: Run, branch: str) -> None:
        self._look(run, branch, [*PAIR, self._any()] if self._rng.random() < 0.5 else list(PAIR + PLAIN + TABLES))

    def _look(self, run: Run, branch: str, names: list[str]) -> tuple[dict[str, str | None], dict[str, Json], str]:
        """(values, contents, the commit) of several keys, by one request."""
        body = {"requestedKeys": [key(name) for name in dict.fromkeys(names)]}
        since = self._heads[0]
        found = self._read(self.web.send("POST", f"/api/v2/trees/{quote(branch, safe='')}/contents", body))
        contents = {".".join(row["key"]["elements"]): row["content"] for row in found["contents"]}
        values = {name: value_of(contents.get(name)) for name in names}
        self._note(run, since, values)
        return values, contents, found["effectiveReference"]["hash"]

    def _list(self, run: Run, branch: str) -> None:
        ref = quote(branch, safe="")
        if self._rng.random() < 0.5:
            found, since = self._get(run, f"/api/v2/trees/{ref}/entries?prefix-key=n")
            names = {".".join(row["name"]["elements"]) for row in found["entries"]}
        else:
            found, since = self._get(run, f"/iceberg/v1/{ref}/namespaces/n/tables")
            if found is None:
                raise Ended
            names = {"n"} | {f"n.{row['name']}" for row in found["identifiers"]}
        self._note(run, since, {}, n=frozenset(names))

    def _list_all(self, run: Run, branch: str) -> None:
        found, since = self._get(run, f"/api/v2/trees/{quote(branch, safe='')}/entries?content=true")
        values = {".".join(row["name"]["elements"]): value_of(row["content"]) for row in found["entries"]}
        self._note(run, since, values, **{"": frozenset(values)})

    def _load(self, run: Run, branch: str) -> None:
        name = self._rng.choice(TABLES)
        path = f"/iceberg/v1/{quote(branch, safe='')}/namespaces/ice/tables/{name.removeprefix('ice.')}"
        found, since = self._get(run, path)
        if found is None:
            raise Ended
        self._note(run, since, {name: found["metadata-location"]})

    def _exists(self, run: Run, branch: str) -> None:
        name, since = self._rng.choice(PLAIN[1:]), self._heads[0]
        path = f"/iceberg/v1/{quote(branch, safe='')}/namespaces/n/tables/{name.removeprefix('n.')}"
        status = self.web.send("HEAD", path).status_code
        self._get(run, f"/api/v2/trees/{quote(branch, safe='')}")  # a branch that is gone holds nothing
        self._note(run, since, {}, **{name: frozenset({name} if status == 204 else ())})

    def _compare(self, run: Run, branch: str) -> None:
        found, since = self._get(run, f"/api/v2/trees/main@{run.start}/diff/{quote(branch, safe='')}")
        values = {".".join(row["key"]["elements"]): value_of(row.get("to")) for row in found["diffs"]}
        until = self._head() if run.level is Level.READ_COMMITTED else ""
        run.events.append(Seen(values, {}, since, until, is_difference=True))

    # -- writing -----------------------------------------------------------------------------------

    def _put(self, run: Run, branch: str) -> None:
        self._change(run, branch, self._rng.sample(PLAIN, self._rng.randint(1, 2)))

    def _transfer(self, run: Run, branch: str) -> None:
        self._change(run, branch, list(PAIR))

    def _change(self, run: Run, branch: str, names: list[str]) -> None:
        seen, found, at = self._look(run, branch, names)
        if answer := self._commit(branch, at, seen, found, "m"):
            run.events.append(Wrote(answer[0], {name: seen[name] for name in answer[0]}))

    def _commit(
        self, branch: str, at: str, seen: dict[str, str | None], found: dict[str, Json], message: str
    ) -> tuple[dict[str, str | None], str] | None:
        """(what was written, the commit); None when others were in the way."""
        values = self._draw(seen)
        operations = [
            put(name, table(1, found[name]["id"] if name in found else None) | {"metadataLocation": value})
            if value
            else delete(name)
            for name, value in values.items()
        ]
        body = {"commitMeta": {"message": message}, "operations": operations}
        path = f"/api/v2/trees/{quote(branch, safe='')}@{at}/history/commit"
        answer = self.web.send("POST", path, body, may_lose=True, Idempotency_Key=str(uuid.uuid4()))
        if answer.status_code == 200:
            return values, answer.json()["targetBranch"]["hash"]
        _require_branch(answer)
        assert answer.status_code == 409, answer.text
        return None

    def _draw(self, seen: dict[str, str | None]) -> dict[str, str | None]:
        """New values: a transfer between the pair, or anything."""
        self._written += 1
        name = f"{self._seed}-{self._written}"
        if set(seen) == set(PAIR):
            moved = self._rng.randint(1, 9)
            return {key: f"{key}-{name}:{amount_of(seen[key]) + change}" for key, change in zip(PAIR, (-moved, moved))}
        return {
            key: None if value and key != "c" and self._rng.random() < 0.4 else f"{key}-{name}"
            for key, value in seen.items()
        }

    def _change_table(self, run: Run, branch: str) -> None:
        name = self._rng.choice(TABLES)
        path = f"/iceberg/v1/{quote(branch, safe='')}/namespaces/ice/tables/{name.removeprefix('ice.')}"
        answer = self._write_tables(path, self._properties())
        if answer is not None:
            run.events.append(Wrote({name: answer["metadata-location"]}, {}))

    def _change_tables(self, run: Run, branch: str) -> None:
        """Both in one commit, whose answer does not say where their metadata is: they are read afterwards."""
        changes = [
            {"identifier": {"namespace": ["ice"], "name": name.removeprefix("ice.")}, **self._properties()}
            for name in TABLES
        ]
        path = f"/iceberg/v1/{quote(branch, safe='')}/transactions/commit"
        if self._write_tables(path, {"table-changes": changes}) is not None:
            seen, _, _ = self._look(run, branch, list(TABLES))
            run.events.insert(-1, Wrote(seen, {}))

    def _properties(self) -> Json:
        self._written += 1
        update = {"action": "set-properties", "updates": {"p": f"{self._seed}-{self._written}"}}
        return {"requirements": [], "updates": [update]}

    def _write_tables(self, path: str, body: Json) -> Json | None:
        answer = self.web.send("POST", path, body, may_lose=True, Idempotency_Key=str(uuid.uuid4()))
        _require_branch(answer)
        assert answer.status_code in (200, 204, 409), answer.text
        return None if answer.status_code == 409 else answer.json() if answer.content else {}


def _require_branch(answer: httpx.Response) -> None:
    """Ended when an answer says, in the words of either API, that there is no such branch."""
    if any(word in answer.text for word in ("REFERENCE_NOT_FOUND", "NoSuchReferenceException")):
        raise Ended


def amount_of(value: str | None) -> int:
    """What one of the pair holds."""
    return int(str(value).rpartition(":")[2])
