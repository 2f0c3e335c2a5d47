"""What a session in a transaction does inside of it, and how it gets out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, ReferenceNotFound, TransactionNotOpen
from nessie_ops.model import CatalogTransactionState, ReferenceType
from nessie_ops.sql import SqlSession
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore
from tests.server.helpers import running_server
from tests.versioning.helpers import commit, head, key, put, table, update


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[VersionStore]:
    """A main with the tables a and b, and a `dev` that has c besides."""
    opened = VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")
    commit(opened, put("a", table(1)), put("b", table(1)))
    opened.create_reference(ReferenceType.BRANCH, "dev", head(opened))
    update(opened, "c", 1, "dev")
    yield opened
    opened.close()


@pytest.fixture
def session(versions: VersionStore, tmp_path: Path) -> Iterator[SqlSession]:
    with running_server(f"sqlite:///{tmp_path}/catalog.db") as uri, NessieClient(uri) as client:
        yield SqlSession(client)


def rows(session: SqlSession, text: str) -> list[tuple[Any, ...]]:
    return session.sql(text)[-1].rows


def state(session: SqlSession, id: str) -> CatalogTransactionState:
    return session.client.get_transaction(id).state


def start(session: SqlSession) -> str:
    return str(rows(session, "START TRANSACTION")[0][0])


def test_a_merge_goes_into_the_transaction(session: SqlSession, versions: VersionStore) -> None:
    before = head(versions)
    start(session)
    [(into, _)] = rows(session, "MERGE BRANCH dev")
    assert into == session.ref and head(versions) == before
    session.sql("DROP TABLE a")
    update(versions, "d", 1)  # of others, which is no part of what the transaction changed
    assert [row[:2] for row in rows(session, "SHOW DIFF")] == [("a", "REMOVED"), ("c", "ADDED")]


def test_nothing_is_done_outside_by_mistake(session: SqlSession, versions: VersionStore) -> None:
    id, before = start(session), head(versions)
    with pytest.raises(BadRequest, match="the branch of the open transaction; ROLLBACK"):
        session.sql(f"DROP BRANCH '{session.ref}'; DROP TABLE a")
    session.client.rollback_transaction(id)
    for after in ("DROP TABLE a", "COMMIT"):
        with pytest.raises((TransactionNotOpen, ReferenceNotFound), match=id):
            session.sql(after)
    assert head(versions) == before
    assert rows(session, "ROLLBACK; SHOW REFERENCE") == [("Branch", "main", before)]


def test_a_transaction_that_ended_otherwise_is_left(session: SqlSession, versions: VersionStore) -> None:
    id = start(session)
    session.client.commit_transaction(id)  # as if the answer to a COMMIT had been lost
    with pytest.raises(TransactionNotOpen, match="is COMMITTED since"):
        session.sql("ROLLBACK")
    assert session.transaction is None and session.ref == "main"
    id = start(session)
    later = Transactions(versions, clock=lambda: datetime.now(UTC) + timedelta(hours=2))
    assert later.reap_transactions() == [id]
    assert rows(session, "ROLLBACK") == [("OK",)] and state(session, id) is CatalogTransactionState.EXPIRED
    id = start(session)
    assert later.rollback_transaction(id).state is CatalogTransactionState.ROLLED_BACK  # the lease is over


def test_a_lost_answer_to_commit(session: SqlSession, versions: VersionStore) -> None:
    id = start(session)
    session.sql("DROP TABLE a")
    done = session.client.commit_transaction(id)
    update(versions, "b", 2)
    assert rows(session, "COMMIT") == [("main", done.commit_hash)]
    assert key("a") not in versions.get_contents(head(versions), [key("a")])


def test_a_session_that_ends_rolls_back(session: SqlSession, versions: VersionStore) -> None:
    session.close()  # none is open
    id = start(session)
    session.close()
    assert state(session, id) is CatalogTransactionState.ROLLED_BACK
    start(session)
    session.client.close()
    with NessieClient("http://127.0.0.1:1") as nobody:
        session.client = nobody
        session.close()  # its lease ends it
    assert session.transaction is None


def test_a_reference_with_steps_is_looked_up_once(session: SqlSession, versions: VersionStore) -> None:
    was = head(versions)
    update(versions, "a", 2)
    for n, spec in enumerate(("main~1", f"main@{was}", f"@{was}")):
        session.sql(f"USE REFERENCE '{spec}'")
        update(versions, "a", 10 + n)
        assert rows(session, "SHOW REFERENCE")[0][2] == was
        with pytest.raises(BadRequest, match="which nobody can write to"):
            session.sql("DROP TABLE a")
