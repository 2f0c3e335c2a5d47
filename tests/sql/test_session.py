"""Statements on a real server: what they answer, what they change, which reference they are about."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import (
    BadRequest,
    ContentNotFound,
    MergeConflict,
    NamespaceAlreadyExists,
    ReferenceAlreadyExists,
    ReferenceConflict,
    ReferenceNotFound,
    TransactionConflict,
)
from nessie_ops.model import NewCommit, ReferenceType
from nessie_ops.sql import SqlSession, SqlSyntaxError
from nessie_ops.versioning import VersionStore
from tests.server.helpers import running_server
from tests.versioning.helpers import commit, delete, head, key, namespace, put, table, update

Rows = list[tuple[Any, ...]]


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[VersionStore]:
    """A main with db.t, written three times, and a `dev` that has db.u besides."""
    opened = VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")
    commit(opened, put("db", namespace("db", owner="ann")))
    for n in (1, 2, 3):
        update(opened, "db.t", n)
    opened.create_reference(ReferenceType.BRANCH, "dev", head(opened))
    update(opened, "db.u", 1, "dev")
    yield opened
    opened.close()


@pytest.fixture
def session(versions: VersionStore, tmp_path: Path) -> Iterator[SqlSession]:
    with running_server(f"sqlite:///{tmp_path}/catalog.db") as uri, NessieClient(uri) as client:
        yield SqlSession(client, catalog="nessie")


def rows(session: SqlSession, text: str) -> Rows:
    return session.sql(text)[-1].rows


def keys(versions: VersionStore, branch: str = "main") -> dict[str, int]:
    """Keys of tables and the snapshots that they are at."""
    found = versions.list_entries(head(versions, branch), with_content=True)
    return {str(row.name): row.content.snapshot_id for row in found if hasattr(row.content, "snapshot_id")}


def test_references(session: SqlSession, versions: VersionStore) -> None:
    main, dev = head(versions), head(versions, "dev")
    before = versions.resolve("main~2").hash
    assert rows(session, "CREATE BRANCH etl IN nessie FROM dev") == [("Branch", "etl", dev)]
    assert rows(session, "CREATE TAG v1 AT '~2'") == [("Tag", "v1", before)]
    assert rows(session, f"CREATE TAG v2 FROM dev AT COMMIT {main}") == [("Tag", "v2", main)]
    with pytest.raises(ReferenceAlreadyExists, match="etl"):
        session.sql("CREATE BRANCH etl")
    assert rows(session, "CREATE BRANCH IF NOT EXISTS etl") == [("Branch", "etl", dev)]
    with pytest.raises(BadRequest, match="'etl' is a branch, not a tag"):
        session.sql("CREATE TAG IF NOT EXISTS etl")
    everything = [("Branch", "dev", dev), ("Branch", "etl", dev), ("Branch", "main", main)]
    tags = [("Tag", "v1", before), ("Tag", "v2", main)]
    assert rows(session, "LIST REFERENCES") == everything + tags
    assert rows(session, "LIST REFERENCES FILTER \"refType == 'TAG'\"") == tags
    assert rows(session, "LIST REFERENCES STARTING WITH e") == [everything[1]]
    assert rows(session, "LIST REFERENCES CONTAINING a") == [everything[2]]
    assert rows(session, "LIST REFERENCES STARTING WITH m CONTAINING '\"v'") == []
    assert rows(session, "ASSIGN TAG v1 TO dev") == [("Tag", "v1", dev)]
    assert rows(session, "ASSIGN BRANCH etl") == [("Branch", "etl", main)]
    assert rows(session, "DROP TAG v1") == rows(session, "DROP TAG IF EXISTS v1") == [("OK",)]
    with pytest.raises(ReferenceNotFound, match="v1"):
        session.sql("DROP TAG v1")
    with pytest.raises(BadRequest, match="'dev' is a branch, not a tag"):
        session.sql("DROP TAG IF EXISTS dev")
    with pytest.raises(BadRequest, match="cannot be deleted"):
        session.sql("DROP BRANCH main")


def test_use(session: SqlSession, versions: VersionStore) -> None:
    main, dev = head(versions), head(versions, "dev")
    assert rows(session, "SHOW REFERENCE") == [("Branch", "main", main)]
    assert rows(session, "USE BRANCH dev") == [("Branch", "dev", dev)]
    assert rows(session, "SHOW REFERENCE") == [("Branch", "dev", dev)]
    assert len(rows(session, "SHOW LOG")) == 5
    assert len(rows(session, "SHOW LOG ON main")) == 4
    assert rows(session, "USE REFERENCE main AT '~1'") == [("Branch", "main", versions.resolve("main~1").hash)]
    commit(versions, put("new", table(1)))
    assert len(rows(session, "SHOW LOG")) == 3  # the commit that was meant, though main has moved
    assert rows(session, "SHOW REFERENCE main") == [("Branch", "main", head(versions))]
    assert len(rows(session, "SHOW LOG AT '~1'")) == 4  # from main's head
    with pytest.raises(BadRequest, match="which nobody can write to"):
        session.sql("DROP TABLE db.t")
    with pytest.raises(BadRequest, match="'dev' is a branch, not a tag"):
        session.sql("USE TAG dev")
    with pytest.raises(ReferenceNotFound, match="nowhere"):
        session.sql("USE BRANCH nowhere")
    assert session.ref.startswith("main@")
    with pytest.raises(BadRequest, match="say which branch to assign"):
        session.sql("ASSIGN BRANCH")  # which would set main back
    session.sql("USE BRANCH dev; DROP BRANCH dev")
    assert session.ref == "main"
    with pytest.raises(BadRequest, match="this session's catalog is nessie"):
        session.sql("USE BRANCH main IN other")


def test_where_at_leads(session: SqlSession, versions: VersionStore) -> None:
    log = rows(session, "SHOW LOG")
    second = log[1][2]
    for at in (f"COMMIT {second}", second, "'~1'", f"'{second}'", f"COMMIT '{log[0][2]}~1'"):
        assert rows(session, f"SHOW REFERENCE main AT {at}") == [("Branch", "main", second)], at
    time = log[1][6].isoformat()
    at_time = rows(session, f"SHOW REFERENCE main AT TIMESTAMP '{time}'")
    assert at_time == rows(session, f"SHOW REFERENCE main AT '{time}'")
    assert at_time[0][2] in {log[0][2], second}  # two commits may be of one microsecond
    with pytest.raises(BadRequest, match="AT COMMIT: 'yesterday'"):
        session.sql("SHOW LOG AT COMMIT yesterday")
    with pytest.raises(BadRequest, match="'yesterday' is not a timestamp"):
        session.sql("SHOW LOG AT yesterday")


def test_log_and_diff(session: SqlSession, versions: VersionStore) -> None:
    words = NewCommit(
        message="m", committer="bob", authors=("ann",), signed_off_by=("eve",), properties={"a": ("1", "2")}
    )
    versions.commit("main", head(versions), words, [put("x", table(1)), delete("db.t")])
    [found] = session.sql("SHOW LOG LIMIT 1")
    row = dict(zip(found.columns, found.rows[0]))
    assert isinstance(row["authorTime"], datetime) and row["authorTime"].tzinfo
    assert isinstance(row["committerTime"], datetime)
    assert row | {"authorTime": 0, "committerTime": 0} == {
        "author": "ann",
        "committer": "bob",
        "hash": head(versions),
        "message": "m",
        "signedOffBy": "eve",
        "authorTime": 0,
        "committerTime": 0,
        "properties": {"a": "1, 2"},
    }
    table_type = "ICEBERG_TABLE"
    assert rows(session, "SHOW DIFF FROM main AT '~2' TO main") == [
        ("db.t", "REMOVED", table_type, None),
        ("x", "ADDED", None, table_type),
    ]
    assert rows(session, "SHOW DIFF FROM main AT '~3' TO main AT '~1' LIMIT 1") == [
        ("db.t", "CHANGED", table_type, table_type)
    ]
    assert rows(session, "SHOW DIFF") == []
    assert [row[0] for row in rows(session, "SHOW DIFF TO dev")] == ["db.t", "db.u", "x"]


def test_merge(session: SqlSession, versions: VersionStore) -> None:
    assert rows(session, "MERGE DRY BRANCH dev") == [("main", None)]
    assert "db.u" not in keys(versions)
    assert rows(session, "MERGE BRANCH dev INTO main") == [("main", head(versions))]
    assert keys(versions)["db.u"] == 1
    assert rows(session, "MERGE BRANCH dev") == [("main", head(versions))]  # nothing new: no commit
    with pytest.raises(BadRequest, match="'dev' is a branch, not a tag"):
        session.sql("MERGE TAG dev")
    session.sql("CREATE BRANCH other AT '~3'; USE BRANCH dev")
    assert rows(session, "MERGE BRANCH INTO other") == [("other", head(versions, "other"))]
    assert keys(versions, "other") == {"db.t": 3, "db.u": 1}


@pytest.fixture
def diverged(versions: VersionStore) -> VersionStore:
    """`dev` and main both changed db.t and db.v; dev alone db.u."""
    update(versions, "db.v", 1)
    versions.assign_reference("dev", None, head(versions))
    for branch, n in (("dev", 10), ("main", 20)):
        update(versions, "db.t", n, branch)
        update(versions, "db.v", n, branch)
    update(versions, "db.u", 10, "dev")
    return versions


@pytest.mark.parametrize(
    ("clauses", "after"),
    [
        ("BEHAVIOR FORCE", {"db.t": 10, "db.u": 10, "db.v": 10}),
        ("BEHAVIORS db.t = FORCE AND db.v = DROP", {"db.t": 10, "db.u": 10, "db.v": 20}),
        ("ON CONFLICT OVERWRITE", {"db.t": 10, "db.u": 10, "db.v": 10}),
        ("ON CONFLICT DISCARD", {"db.t": 20, "db.u": 10, "db.v": 20}),
        ("ON CONFLICT DISCARD EXCEPT OVERWRITE db.v", {"db.t": 20, "db.u": 10, "db.v": 10}),
        ("ON CONFLICT OVERWRITE EXCEPT DISCARD db.t EXCEPT CANCEL db.u", {"db.t": 20, "db.u": 10, "db.v": 10}),
        ("INTO main IN nessie ON CONFLICT CANCEL EXCEPT OVERWRITE db.t, db.v", {"db.t": 10, "db.u": 10, "db.v": 10}),
    ],
)
def test_merge_with_conflicts(session: SqlSession, diverged: VersionStore, clauses: str, after: dict[str, int]) -> None:
    assert rows(session, f"MERGE DRY RUN BRANCH dev {clauses}") == [("main", None)]
    assert rows(session, f"MERGE BRANCH dev {clauses}") == [("main", head(diverged))]
    assert keys(diverged) == after


@pytest.mark.parametrize("clauses", ["", "ON CONFLICT CANCEL", "ON CONFLICT OVERWRITE EXCEPT CANCEL db.v"])
def test_merge_is_cancelled(session: SqlSession, diverged: VersionStore, clauses: str) -> None:
    before = head(diverged)
    for dry in ("", "DRY"):
        with pytest.raises(MergeConflict, match=r"db\.v"):
            session.sql(f"MERGE {dry} BRANCH dev {clauses}")
    assert head(diverged) == before


def test_namespaces(session: SqlSession, versions: VersionStore) -> None:
    assert rows(session, "CREATE NAMESPACE a ON dev SET owner = bob AND note = 'it is \"new\"'") == [("OK",)]
    session.sql("USE BRANCH dev; CREATE NAMESPACE a.b")
    shown = rows(session, "SHOW NAMESPACE a")[0][0]
    assert '"owner": "bob"' in shown and '"note": "it is \\"new\\""' in shown
    session.sql("ALTER NAMESPACE a SET note = x REMOVE owner")
    found = versions.get_contents(head(versions, "dev"), [key("a")])[key("a")]
    assert found.properties == {"note": "x"}  # type: ignore[union-attr]
    with pytest.raises(BadRequest, match="has no property owner"):
        session.sql("ALTER NAMESPACE a REMOVE owner")
    with pytest.raises(ReferenceConflict, match="a"):
        session.sql("DROP NAMESPACE a")
    session.sql("DROP NAMESPACE a.b; DROP NAMESPACE a")
    with pytest.raises(ContentNotFound, match="no namespace 'a'"):
        session.sql("SHOW NAMESPACE a")
    with pytest.raises(NamespaceAlreadyExists, match="There is a 'db' on dev already"):
        session.sql("CREATE NAMESPACE db")
    with pytest.raises(ReferenceConflict, match="absent"):
        session.sql("CREATE NAMESPACE absent.b")


def test_contents(session: SqlSession, versions: VersionStore) -> None:
    everything = [("NAMESPACE", "db"), ("ICEBERG_TABLE", "db.t"), ("ICEBERG_TABLE", "db.u")]
    assert rows(session, "LIST CONTENTS ON dev") == everything
    assert rows(session, "LIST CONTENTS") == everything[:2]
    assert rows(session, "LIST CONTENTS ON BRANCH dev STARTING WITH db.") == everything[1:]
    assert rows(session, "LIST CONTENTS ON dev CONTAINING u") == everything[2:]
    assert rows(session, "LIST CONTENTS ON dev STARTING WITH d CONTAINING '.t'") == [everything[1]]
    assert rows(session, "LIST CONTENTS ON dev FILTER \"entry.contentType == 'NAMESPACE'\"") == everything[:1]
    assert rows(session, "LIST CONTENTS AT '~3'") == everything[:1]
    assert '"snapshotId": 1' in rows(session, "SHOW TABLE db.t AT '~2'")[0][0]
    assert '"snapshotId": 1' in rows(session, "SHOW TABLE ON dev db.u")[0][0]
    with pytest.raises(ContentNotFound, match=r"no view 'db\.t'.*it is a table"):
        session.sql("SHOW VIEW db.t")
    with pytest.raises(ContentNotFound, match=r"no namespace 'db\.t'"):
        session.sql("DROP NAMESPACE db.t")
    assert rows(session, "DROP TABLE db.t ON dev") == [("OK",)]
    assert keys(versions, "dev") == {"db.u": 1}
    with pytest.raises(BadRequest, match="is a tag"):
        session.sql("CREATE TAG v1; DROP TABLE db.t ON v1")


def test_names_of_any_script(session: SqlSession, versions: VersionStore) -> None:
    commit(versions, put("ü😀\"'", table(1)))
    assert rows(session, "LIST CONTENTS STARTING WITH 'ü😀'") == [("ICEBERG_TABLE", "ü😀\"'")]
    assert rows(session, "LIST CONTENTS CONTAINING '😀\"\\''") == [("ICEBERG_TABLE", "ü😀\"'")]
    assert rows(session, "LIST REFERENCES CONTAINING '😀\"'") == []


def test_revert_content(session: SqlSession, versions: VersionStore) -> None:
    assert rows(session, "REVERT CONTENT DRY OF db.t TO STATE AT '~2'") == [("main", None)]
    assert keys(versions) == {"db.t": 3}
    assert rows(session, "REVERT CONTENT OF db.t TO STATE AT '~2'") == [("main", head(versions))]
    assert keys(versions) == {"db.t": 1}
    with pytest.raises(BadRequest, match=r"db\.u"):
        session.sql("REVERT CONTENT OF db.u ON dev TO STATE ON main")
    session.sql("REVERT CONTENT OF db.u AND db.t ON BRANCH dev TO STATE ON BRANCH main ALLOW DELETES")
    assert keys(versions, "dev") == {"db.t": 1}


def test_a_text_that_cannot_be_read_does_nothing(session: SqlSession, versions: VersionStore) -> None:
    with pytest.raises(SqlSyntaxError, match="line 2, column 1"):
        session.sql("DROP BRANCH dev;\nMAKE BRANCH x")
    assert versions.get_reference("dev")


def test_listings_of_more_than_a_page(
    session: SqlSession, versions: VersionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nessie_ops.sql.contents._PAGE", 2)
    commit(versions, *(put(f"db.x{n}", table(n)) for n in range(5)))
    assert [row[1] for row in rows(session, "LIST CONTENTS")] == ["db", "db.t", *(f"db.x{n}" for n in range(5))]


def test_it_begins_where_it_is_told(session: SqlSession) -> None:
    assert SqlSession(session.client, ref="dev").sql("SHOW REFERENCE")[0].rows[0][1] == "dev"
    with pytest.raises(ReferenceNotFound, match="nowhere"):
        SqlSession(session.client, ref="nowhere")


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATED READ", "SERIALIZABLE"])
def test_a_transaction(session: SqlSession, versions: VersionStore, level: str) -> None:
    [begun] = session.sql(f"START TRANSACTION ISOLATION LEVEL {level}")
    row = dict(zip(begun.columns, begun.rows[0]))
    assert row["isolation"] == level.replace(" ", "_") and row["startHash"] == head(versions)
    session.sql("CREATE NAMESPACE a; CREATE NAMESPACE a.b; DROP TABLE db.t")
    assert keys(versions) == {"db.t": 3}
    assert [name for _, name in rows(session, "LIST CONTENTS")] == ["a", "a.b", "db"]
    assert row["branch"] not in [name for _, name, _ in rows(session, "LIST REFERENCES")]
    update(versions, "db.w", 1)
    seen = [name for _, name in rows(session, "LIST CONTENTS")]
    assert ("db.w" in seen) is (level == "READ COMMITTED")
    for forbidden in ("START TRANSACTION", "USE BRANCH dev"):
        with pytest.raises(BadRequest, match=f"transaction|{row['id']}"):
            session.sql(forbidden)
    if level == "SERIALIZABLE":
        with pytest.raises(TransactionConflict, match=r"db\.w"):
            session.sql("COMMIT")
        assert rows(session, "ROLLBACK") == [("OK",)]
        assert keys(versions) == {"db.t": 3, "db.w": 1}
    else:
        assert rows(session, "COMMIT MESSAGE 'all at once'") == [("main", head(versions))]
        assert keys(versions) == {"db.w": 1}
        assert rows(session, "SHOW LOG LIMIT 1")[0][3] == "all at once"
    assert session.ref == "main"
    for outside in ("COMMIT", "ROLLBACK"):
        with pytest.raises(BadRequest, match="no transaction is open"):
            session.sql(outside)
    with pytest.raises(BadRequest, match="a commit; name a branch"):
        session.sql("USE REFERENCE main AT '~1'; START TRANSACTION")
