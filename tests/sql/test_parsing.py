"""Texts and the statements that they are; errors point at what is in the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nessie_ops.errors import BadRequest
from nessie_ops.model import ContentKey, ContentType, Isolation, MergeBehavior, ReferenceType
from nessie_ops.sql import SqlSyntaxError, is_statement, parse
from nessie_ops.sql import statements as s
from nessie_ops.sql.statements import At, AtKind, OnConflict, Place, Resolution, Selection

BRANCH, TAG = ReferenceType.BRANCH, ReferenceType.TAG
TABLE, NAMESPACE = ContentType.ICEBERG_TABLE, ContentType.NAMESPACE
FORCE, DROP, NORMAL = MergeBehavior.FORCE, MergeBehavior.DROP, MergeBehavior.NORMAL
A, B, C = ContentKey(("a", "b")), ContentKey(("c",)), ContentKey(("d",))
HASH = "2e1cfa82b035c26cbbbdae632cea070514eb8b773f616aaeaf668e2f0be8f10d"

STATEMENTS = {
    "CREATE BRANCH dev": s.CreateReference(BRANCH, "dev", Place()),
    "create tag if not exists v1.0 in nessie from main at timestamp '2026-01-31T00:00:00Z'": s.CreateReference(
        TAG, "v1.0", Place("main", At("2026-01-31T00:00:00Z", AtKind.TIMESTAMP)), True, "nessie"
    ),
    f"CREATE BRANCH dev AT COMMIT {HASH}": s.CreateReference(BRANCH, "dev", Place(None, At(HASH, AtKind.COMMIT))),
    "DROP BRANCH dev IN nessie": s.DropReference(BRANCH, "dev", catalog="nessie"),
    "DROP TAG IF EXISTS v1": s.DropReference(TAG, "v1", True),
    "ASSIGN BRANCH": s.AssignReference(BRANCH, None, Place()),
    "ASSIGN BRANCH TO main": s.AssignReference(BRANCH, None, Place("main")),
    "ASSIGN TAG v1 TO main AT '~2' IN nessie": s.AssignReference(TAG, "v1", Place("main", At("~2")), "nessie"),
    "USE BRANCH etl/dev-1": s.Use(BRANCH, Place("etl/dev-1")),
    "USE REFERENCE `main` AT `2026-01-31` IN nessie": s.Use(None, Place("main", At("2026-01-31")), "nessie"),
    "SHOW REFERENCE": s.ShowReference(Place()),
    "SHOW REFERENCE dev AT 12345678 IN nessie": s.ShowReference(Place("dev", At("12345678")), "nessie"),
    "LIST REFERENCES": s.ListReferences(Selection()),
    "LIST REFERENCES FILTER 'refType == \"TAG\"' IN nessie": s.ListReferences(
        Selection(filter='refType == "TAG"'), "nessie"
    ),
    "LIST REFERENCES STARTING WITH etl/ CONTAINING dev": s.ListReferences(
        Selection(starts_with="etl/", contains="dev")
    ),
    "SHOW LOG": s.ShowLog(Place()),
    "SHOW LOG log": s.ShowLog(Place("log")),
    "SHOW LOG ON BRANCH dev LIMIT 5 IN nessie": s.ShowLog(Place("dev"), 5, "nessie"),
    "SHOW LOG ON dev AT COMMIT abcdef12": s.ShowLog(Place("dev", At("abcdef12", AtKind.COMMIT))),
    "SHOW DIFF": s.ShowDiff(None, Place()),
    "SHOW DIFF FROM main AT '~3' TO dev LIMIT 10": s.ShowDiff(Place("main", At("~3")), Place("dev"), 10),
    "START TRANSACTION": s.StartTransaction(Isolation.SERIALIZABLE),
    "start transaction isolation level read committed on dev in nessie": s.StartTransaction(
        Isolation.READ_COMMITTED, "dev", "nessie"
    ),
    "START TRANSACTION ISOLATION LEVEL REPEATED  READ": s.StartTransaction(Isolation.REPEATED_READ),
    "START TRANSACTION ISOLATION LEVEL REPEATABLE READ": s.StartTransaction(Isolation.REPEATED_READ),
    "COMMIT": s.CommitTransaction(),
    "COMMIT TRANSACTION MESSAGE 'both'": s.CommitTransaction("both"),
    "ROLLBACK": s.RollbackTransaction(),
    "MERGE BRANCH dev": s.MergeReference(BRANCH, Place("dev")),
    "MERGE DRY BRANCH dev INTO main IN nessie": s.MergeReference(BRANCH, Place("dev"), "main", True, catalog="nessie"),
    "MERGE TAG v1 AT abcdef12 BEHAVIOR FORCE BEHAVIORS a.b = DROP AND c=NORMAL INTO main": s.MergeReference(
        TAG, Place("v1", At("abcdef12")), "main", behavior=FORCE, behaviors=((A, DROP), (B, NORMAL))
    ),
    "MERGE BRANCH DRY RUN dev ON CONFLICT OVERWRITE EXCEPT DISCARD a.b, c EXCEPT CANCEL d": s.MergeReference(
        BRANCH,
        Place("dev"),
        dry_run=True,
        on_conflict=OnConflict(
            Resolution.OVERWRITE, ((A, Resolution.DISCARD), (B, Resolution.DISCARD), (C, Resolution.CANCEL))
        ),
    ),
    "CREATE NAMESPACE a.b ON BRANCH dev SET owner = ann AND note = 'it\\'s'": s.CreateNamespace(
        A, "dev", (("owner", "ann"), ("note", "it's"))
    ),
    "ALTER NAMESPACE c SET x = 1 REMOVE y AND z": s.AlterNamespace(B, None, (("x", "1"),), ("y", "z")),
    "DROP TABLE a.b ON dev": s.DropContent(TABLE, A, "dev"),
    "LIST CONTENTS": s.ListContents(Place(), Selection()),
    "LIST CONTENTS ON TAG v1 AT '*2026-01-31' STARTING WITH 'a.'": s.ListContents(
        Place("v1", At("*2026-01-31")), Selection(starts_with="a.")
    ),
    "SHOW TABLE a.b": s.ShowContent(TABLE, A, Place()),
    "SHOW TABLE a.b ON dev AT abcdef12": s.ShowContent(TABLE, A, Place("dev", At("abcdef12"))),
    "SHOW NAMESPACE ON dev AT abcdef12 c": s.ShowContent(NAMESPACE, B, Place("dev", At("abcdef12"))),
    "REVERT CONTENT OF a.b TO STATE AT '~1'": s.RevertContent((A,), Place(None, At("~1"))),
    "REVERT CONTENT DRY OF a.b AND c ON BRANCH dev TO STATE ON TAG v1 ALLOW DELETES": s.RevertContent(
        (A, B), Place("v1"), "dev", True, True
    ),
    "SHOW TABLE '.a*.b.c'": s.ShowContent(TABLE, ContentKey(("a.b", "c")), Place()),
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement(text: str) -> None:
    assert parse(text) == [STATEMENTS[text]]


def test_many_with_comments_between() -> None:
    text = "-- first\nUSE BRANCH dev; // second\n;SHOW /* the\nwhole */ LOG ;\n"
    assert parse(text) == [s.Use(BRANCH, Place("dev")), s.ShowLog(Place())]
    assert parse("") == parse(" ; -- nothing\n;") == []


def test_a_comment_may_follow_a_word_at_once() -> None:
    assert parse("SHOW LOG--all\n;SHOW/* it */LOG//all\n;USE BRANCH dev--1") == [
        s.ShowLog(Place()),
        s.ShowLog(Place()),
        s.Use(BRANCH, Place("dev")),
    ]
    assert parse("SHOW LOG '--a /*b*/ //c; d'") == [s.ShowLog(Place("--a /*b*/ //c; d"))]


def test_a_keyword_may_be_a_name() -> None:
    assert parse("CREATE BRANCH merge FROM show") == [s.CreateReference(BRANCH, "merge", Place("show"))]
    assert parse("USE BRANCH branch-1") == [s.Use(BRANCH, Place("branch-1"))]
    assert parse("MERGE BRANCH `into` INTO `branch`") == [s.MergeReference(BRANCH, Place("into"), "branch")]


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("CREATE BRANC dev", 1, 8, "BRANC"),
        ("USE BRANCH a;\nSHOW LOGS", 2, 6, "LOGS"),
        ("SHOW", 1, 5, "the text ends"),
        ("USE BRANCH dev AT", 1, 18, "the text ends"),
        ("MERGE BRANCH dev BEHAVIOR MAYBE", 1, 27, "NORMAL"),
        ("USE BRANCH dev % 3", 1, 16, "%"),
        ("USE BRANCH 'dev", 1, 12, "'"),
        ("SHOW LOG LIMIT 0", 1, 16, "0 is not a number"),
        ("SHOW LOG LIMIT 99999999999999999999", 1, 16, "9 is not a number"),
        ("MERGE BRANCH dev INTO a INTO b", 1, 1, "into"),
        ("MERGE BRANCH dev BEHAVIOR FORCE ON CONFLICT CANCEL", 1, 1, "ON CONFLICT"),
        ("MERGE BRANCH dev ON CONFLICT CANCEL EXCEPT DISCARD a EXCEPT OVERWRITE a", 1, 18, "a twice"),
        ("CREATE NAMESPACE a SET x = 1 AND x = 2", 1, 20, "x twice"),
        ("ALTER NAMESPACE a", 1, 1, "SET or REMOVE"),
        ("REVERT CONTENT OF a TO STATE", 1, 1, "ON or AT"),
        ("SHOW TABLE a..b", 1, 12, "empty element"),
        ("SHOW TABLE ''", 1, 12, "empty element"),
        ("DROP TABLE 'a\nb'", 1, 12, "control character"),
        ("CREATE NAMESPACE a.b SET note = 'it''s'", 1, 37, "'s'"),
    ],
)
def test_an_error_points_at_the_token(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column), caught.value.message
    first, shown, marked = caught.value.message.split("\n")
    assert first.startswith(f"line {line}, column {column}: ") and says in first
    assert first.endswith(".") and not first.endswith("..")
    assert len(marked) - 1 <= len(shown) and marked.strip() == "^"


def test_an_error_says_what_may_stand_there() -> None:
    with pytest.raises(SqlSyntaxError, match="there may stand IF, a name or a text in quotes"):
        parse("CREATE TAG")
    with pytest.raises(SqlSyntaxError, match="there may stand BRANCH or TAG"):
        parse("ASSIGN dev")


def test_a_long_line_is_cut_around_the_error() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse("SHOW LOG " + "x" * 10_000 + " LOG")
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    "text",
    [
        "use branch dev",
        "-- a\n/* b */ CREATE TAG x",
        "MERGE DRY RUN BRANCH dev",
        "MERGE BRANCH dev INTO main",
        "SHOW LOG",
        "LIST REFERENCES",
        "start transaction",
        "COMMIT",
        "REVERT CONTENT OF a TO STATE AT '~1'",
        "MERGE/* not\nINTO */DRY--x\nBRANCH dev",
    ],
)
def test_what_is_ours(text: str) -> None:
    assert is_statement(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "CREATE TABLE branch (id INT)",
        "CREATE NAMESPACE db",
        "DROP TABLE db.t",
        "SHOW TABLES",
        "USE db",
        "USE branches",
        "ALTER TABLE t CREATE BRANCH b",
        "",
        "SHOW " + "-" * 1_000 + " /* LOG",
    ],
)
def test_what_is_an_engines(text: str) -> None:
    assert not is_statement(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        parse(text)
    except BadRequest as error:
        assert error.message


WORDS = st.lists(st.sampled_from(" ".join(STATEMENTS).split()), max_size=12)


@given(WORDS)
def test_any_words_are_read_or_refused_in_words(words: list[str]) -> None:
    test_any_text_is_read_or_refused_in_words.hypothesis.inner_test(" ".join(words))  # type: ignore[attr-defined]
