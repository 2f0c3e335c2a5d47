"""`nessie-ops txn`: a transaction through its life, and what stands in its way."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from nessie_ops.model import NewCatalogTransaction
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore
from tests.cli.conftest import Invoke
from tests.versioning.helpers import head, update


def begin(on: Invoke, *words: str) -> str:
    """The id of a new transaction."""
    return str(json.loads(on("txn", "begin", *words, "--json").stdout)["id"])


def test_a_transaction_becomes_one_commit(on: Invoke, small: VersionStore) -> None:
    told = on("txn", "begin", "-m", "both", "--author", "ana", "--isolation", "repeated_read").stdout.split()
    branch, id = told[1], told[1].removeprefix("txn/")
    assert told[:4] == ["began", branch, "on", "main,"]
    update(small, "n.t", 7, branch)
    update(small, "u", 8, branch)
    [line] = on("txn", "list").stdout.splitlines()
    assert line.split()[:3] == [id, "main", "REPEATED_READ"] and line.endswith("ana")
    until = json.loads(on("txn", "show", id, "--json").stdout)["expiresAt"]
    assert json.loads(on("txn", "renew", branch, "--lease", "P1D", "--json").stdout)["expiresAt"] > until
    assert on("txn", "commit", id).stdout == f"committed {id} to main, now at {head(small)}\n"
    meta = small.get_commit(head(small))
    assert (meta.message, meta.authors, len(meta.parent_commit_hashes)) == ("both", ("ana",), 1)
    assert on("txn", "list").stdout == "" and on("branch", "list", "--hidden").stdout.count("\n") == 2
    shown = dict(line.split(None, 1) for line in on("txn", "show", id).stdout.splitlines())
    assert (shown["state"], shown["commit"], shown["message"]) == ("COMMITTED", head(small), "both")
    [ended] = json.loads(on("txn", "list", "--state", "COMMITTED", "--json").stdout)
    assert ended["commitHash"] == head(small)
    assert "committed" in on("txn", "commit", id).stdout, "whoever asks again learns of the same commit"
    on("txn", "rollback", id, code=1)


def test_a_conflict_says_who_and_the_transaction_stays(on: Invoke, small: VersionStore) -> None:
    id = begin(on, "--on", "dev")
    update(small, "u", 7, f"txn/{id}")
    other = update(small, "u", 9, "dev")
    refused = on("txn", "commit", id, code=3)
    assert refused.stdout == "" and refused.stderr.startswith(f"u: {other[:16]} ")
    assert on("txn", "rollback", f"txn/{id}").stdout == f"rolled back {id}\n"
    assert head(small, "dev") == other
    on("txn", "renew", id, code=1)


def test_what_nobody_ended_is_reaped(on: Invoke, small: VersionStore) -> None:
    left = begin(on)
    old = Transactions(small, clock=lambda: datetime.now(UTC) - timedelta(days=2))
    id = old.begin_transaction(NewCatalogTransaction()).id
    on("txn", "reap")  # unless the server's own reaper was there before
    assert on("txn", "reap").stdout == "0 expired, 0 forgotten, 0 branches deleted\n"
    assert [line.split()[0] for line in on("txn", "list").stdout.splitlines()] == [left]
    assert json.loads(on("txn", "show", id, "--json").stdout)["state"] == "EXPIRED"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "nope"), 4),
        (("commit", "nope"), 4),
        (("begin", "--on", "mian"), 4),
        (("begin", "--isolation", "SNAPSHOT"), 2),
        (("begin", "--lease", "1h"), 2),
        (("begin", "--lease", "P8D"), 2),
        (("list", "--state", "LOST"), 2),
    ],
)
def test_mistakes(on: Invoke, small: VersionStore, words: tuple[str, ...], code: int) -> None:
    assert on("txn", *words, code=code).stdout == "" and len(small.list_references(hidden=True)) == 3
