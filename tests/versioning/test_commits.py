"""Rules of commits: content ids, keys, namespaces, and conflicts decided by value against the head."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from nessie_ops.errors import BadRequest, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import (
    NO_ANCESTOR,
    Content,
    ContentKey,
    IcebergView,
    Merge,
    NewCommit,
    Operation,
    Put,
    ReferenceType,
)
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore, tree
from nessie_ops.versioning.conflicts import get_namespace_conflicts
from nessie_ops.versioning.objects import StoredNodes, find_commit, root_of
from tests.versioning.helpers import (
    commit,
    conflicts_of,
    content_id,
    delete,
    head,
    key,
    namespace,
    put,
    table,
    unchanged,
    update,
    view,
)


def content(versions: VersionStore, path: str) -> object:
    return versions.get_contents(head(versions), [key(path)]).get(key(path))


def test_a_new_content_gets_an_id_that_is_reported(versions: VersionStore) -> None:
    result = versions.commit("main", NO_ANCESTOR, NewCommit(message="m"), [put("t", table(1))])
    assert result.added_contents is not None
    added = result.added_contents[0]
    assert (added.key, added.content_id) == (key("t"), content_id(versions, "t"))
    assert content(versions, "t") == table(1, added.content_id)


def test_an_update_keeps_the_id_and_reports_none(versions: VersionStore) -> None:
    commit(versions, put("t", table(1)))
    id = content_id(versions, "t")
    result = versions.commit("main", head(versions), NewCommit(message="m"), [put("t", table(2, id))])
    assert result.added_contents is None
    assert content(versions, "t") == table(2, id)


def test_a_rename_keeps_the_id_whatever_the_order_of_operations(versions: VersionStore) -> None:
    commit(versions, put("t", table(1)))
    id = content_id(versions, "t")
    commit(versions, put("u", table(1, id)), delete("t"))
    assert content(versions, "t") is None and content_id(versions, "u") == id
    commit(versions, delete("u"), put("t", table(1, id)))
    assert content(versions, "u") is None and content_id(versions, "t") == id


def test_drop_and_create_gives_a_new_id_and_may_change_the_type(versions: VersionStore) -> None:
    commit(versions, put("t", table(1)))
    id = content_id(versions, "t")
    commit(versions, delete("t"), put("t", view(1)))
    assert isinstance(content(versions, "t"), IcebergView) and content_id(versions, "t") != id


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([], "at least one operation"),
        ([put("t", table(2))], "has no content ID"),
        ([put("t", table(2, "00000000-0000-4000-8000-000000000000"))], "different from the content ID"),
        ([put("new", table(2, "00000000-0000-4000-8000-000000000000"))], "must not have a content ID"),
        ([put("new", table(2, "no-uuid"))], "Invalid UUID string: no-uuid"),
        ([put("new", table(2)), delete("new")], "Duplicate key in commit operations: new"),
        ([delete("t"), delete("t")], "Duplicate key"),
        ([put("new", table(2)), unchanged("new")], "Duplicate key"),
        ([delete("t"), put("t", table(2, "00000000-0000-4000-8000-000000000000"))], "Duplicate key"),
        ([Put(ContentKey(("",)), table(1))], "empty element"),
    ],
)
def test_requests_that_break_a_rule(versions: VersionStore, operations: list[Operation], message: str) -> None:
    before = commit(versions, put("t", table(1)))
    with pytest.raises(BadRequest, match=message):
        commit(versions, *operations)
    assert head(versions) == before


def test_a_type_change_with_the_same_id_is_refused_and_moves_nothing(versions: VersionStore) -> None:
    before = commit(versions, put("t", table(1)))
    with pytest.raises(BadRequest, match="cannot become a ICEBERG_VIEW"):
        commit(versions, put("t", view(1, content_id(versions, "t"))))
    assert head(versions) == before


def test_one_content_moves_to_one_key_only(versions: VersionStore) -> None:
    commit(versions, put("t", table(1)))
    id = content_id(versions, "t")
    with pytest.raises(BadRequest, match="'v' must not have a content ID"):
        commit(versions, delete("t"), put("u", table(1, id)), put("v", table(1, id)))


def test_a_stale_expected_hash_is_no_conflict_for_other_keys(versions: VersionStore) -> None:
    first = commit(versions, put("a", table(1)))
    second = commit(versions, put("b", table(1)))
    third = commit(versions, put("c", table(1)), at=first)
    assert versions.get_commit(third).parent_commit_hashes == (second,)


def test_conflicts_are_decided_by_value(versions: VersionStore) -> None:
    expected = commit(versions, put("t", table(1)))
    id = content_id(versions, "t")
    commit(versions, put("t", table(2, id)))
    assert conflicts_of(lambda: commit(versions, put("t", table(3, id)), at=expected)) == [("VALUE_DIFFERS", "t")]
    commit(versions, put("t", table(1, id)))
    assert conflicts_of(lambda: commit(versions, put("t", table(3, id)), at=expected)) == []


def test_every_kind_of_conflict_at_once(versions: VersionStore) -> None:
    expected = commit(versions, *(put(name, table(1)) for name in ("gone", "type", "id", "value", "del", "check")))
    ids = {name: content_id(versions, name) for name in ("gone", "type", "id", "value", "check")}
    commit(
        versions,
        delete("gone"),
        put("new", table(1)),
        delete("type"),
        put("type", view(1)),
        delete("id"),
        put("id", table(1)),
        put("value", table(2, ids["value"])),
        delete("del"),
        put("check", table(2, ids["check"])),
        put("late", table(1)),
    )
    found = conflicts_of(
        lambda: commit(
            versions,
            put("gone", table(9, ids["gone"])),
            put("new", table(9)),
            put("type", table(9, ids["type"])),
            put("id", table(9, ids["id"])),
            put("value", table(9, ids["value"])),
            delete("del"),
            unchanged("check"),
            delete("late"),
            delete("never"),
            unchanged("nowhere"),
            put("fine", table(9)),
            at=expected,
        )
    )
    assert sorted(found) == [
        ("CONTENT_ID_DIFFERS", "id"),
        ("KEY_DOES_NOT_EXIST", "del"),
        ("KEY_DOES_NOT_EXIST", "gone"),
        ("KEY_DOES_NOT_EXIST", "never"),
        ("KEY_DOES_NOT_EXIST", "nowhere"),
        ("KEY_EXISTS", "new"),
        ("PAYLOAD_DIFFERS", "late"),
        ("PAYLOAD_DIFFERS", "type"),
        ("VALUE_DIFFERS", "check"),
        ("VALUE_DIFFERS", "value"),
    ]
    assert content(versions, "fine") is None


def test_messages_of_one_and_of_many_conflicts(versions: VersionStore) -> None:
    commit(versions, put("t", table(1)), put("u", table(1)))
    with pytest.raises(ReferenceConflict, match=r"^Key 't' already exists\.$"):
        commit(versions, put("t", table(2)), at=NO_ANCESTOR)
    with pytest.raises(ReferenceConflict, match=r"There are multiple conflicts .*: key 't' .*, key 'u' already exists"):
        commit(versions, put("t", table(2)), put("u", table(2)), at=NO_ANCESTOR)


def test_unchanged_alone_makes_an_empty_commit(versions: VersionStore) -> None:
    before = commit(versions, put("t", table(1)))
    after = commit(versions, unchanged("t"), unchanged("nowhere"))
    assert after != before
    assert versions.list_log(after, with_operations=True)[0].operations == ()


def test_an_identical_put_makes_a_commit(versions: VersionStore) -> None:
    before = commit(versions, put("t", table(1)))
    assert commit(versions, put("t", table(1, content_id(versions, "t")))) != before


def test_parents_must_be_namespaces(versions: VersionStore) -> None:
    commit(versions, put("t", table(1)))
    assert conflicts_of(lambda: commit(versions, put("a.b.t", table(1)))) == [
        ("NAMESPACE_ABSENT", "a.b"),
        ("NAMESPACE_ABSENT", "a"),
    ]
    assert conflicts_of(lambda: commit(versions, put("t.u", table(1)))) == [("NOT_A_NAMESPACE", "t")]
    assert conflicts_of(lambda: commit(versions, delete("t"), put("t.u", table(1)))) == [("NAMESPACE_ABSENT", "t")]
    commit(versions, put("a.b", namespace("a.b")), put("a", namespace("a")), put("a.b.t", table(1)))
    assert content(versions, "a.b.t")


def test_a_namespace_conflict_comes_before_key_conflicts(versions: VersionStore) -> None:
    commit(versions, put("t", table(1)))
    found = conflicts_of(lambda: commit(versions, put("t", table(2)), put("a.t", table(2)), at=NO_ANCESTOR))
    assert found == [("NAMESPACE_ABSENT", "a")]


def test_only_an_empty_namespace_can_go(versions: VersionStore) -> None:
    first = commit(versions, put("n", namespace("n")))
    stale = commit(versions, put("n.t", table(1)))
    assert conflicts_of(lambda: commit(versions, delete("n"))) == [("NAMESPACE_NOT_EMPTY", "n")]
    assert conflicts_of(lambda: commit(versions, delete("n"), at=first)) == [("NAMESPACE_NOT_EMPTY", "n")]
    assert conflicts_of(lambda: commit(versions, delete("n"), delete("n.t"), put("n.u", table(1)))) == [
        ("NAMESPACE_NOT_EMPTY", "n")
    ]
    assert conflicts_of(lambda: commit(versions, delete("n"), put("n", table(1)))) == [("NAMESPACE_NOT_EMPTY", "n")]
    commit(versions, delete("n"), delete("n.t"))
    assert conflicts_of(lambda: commit(versions, put("n.u", table(1)), at=stale)) == [("NAMESPACE_ABSENT", "n")]


def test_the_expected_commit_must_be_on_the_branch(versions: VersionStore) -> None:
    base = commit(versions, put("t", table(1)))
    versions.create_reference(ReferenceType.BRANCH, "side", base)
    foreign = update(versions, "u", 1, branch="side")
    with pytest.raises(ReferenceNotFound, match=f"Could not find commit '{foreign}' in reference 'main'"):
        commit(versions, put("v", table(1)), at=foreign)
    with pytest.raises(ReferenceNotFound, match="not found"):
        commit(versions, put("v", table(1)), at="ab" * 32)  # type: ignore[arg-type]
    with pytest.raises(ReferenceNotFound, match="not found"):
        commit(versions, put("v", table(1)), at=base[:16])  # type: ignore[arg-type]


def test_a_tag_takes_no_commit(versions: VersionStore) -> None:
    base = commit(versions, put("t", table(1)))
    versions.create_reference(ReferenceType.TAG, "v1", base)
    with pytest.raises(BadRequest, match="Reference to commit into must be a branch"):
        update(versions, "t", 2, branch="v1")


def test_who_and_when(store: Store) -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)
    times = iter([now, now, now, now - timedelta(days=1), now - timedelta(days=1)])
    versions = VersionStore(store, clock=lambda: next(times))
    written = NewCommit(
        message="why", committer="svc", authors=("ann", "bob"), signed_off_by=("bob",), properties={"k": ("v", "w")}
    )
    first = versions.commit("main", NO_ANCESTOR, written, [put("t", table(1))]).target_branch.hash
    meta = versions.get_commit(first)
    assert (meta.committer, meta.authors, meta.all_signed_off_by) == ("svc", ("ann", "bob"), ("bob",))
    assert (meta.message, meta.all_properties) == ("why", {"k": ("v", "w")})
    assert (meta.commit_time, meta.author_time) == (now, now)
    second = commit(versions, put("u", table(1)))
    assert versions.get_commit(second).commit_time == now, "a clock that goes back does not go back in history"
    assert versions.get_commit(second).authors == ("",)


@pytest.mark.parametrize(
    "time",
    [
        datetime(2026, 1, 1),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14))),
    ],
)
def test_an_author_time_that_could_not_be_shown_is_refused(versions: VersionStore, time: datetime) -> None:
    before = update(versions, "t", 1)
    meta = NewCommit(message="m", author_time=time)
    with pytest.raises(BadRequest, match="author_time"):
        versions.commit("main", before, meta, [put("u", table(1))])
    with pytest.raises(BadRequest, match="author_time"):
        versions.merge("main", before, Merge(from_ref="main", from_hash=before, meta=meta))
    assert head(versions) == before


def test_author_times_of_other_zones_and_of_the_ends_of_the_calendar(versions: VersionStore) -> None:
    at = NO_ANCESTOR
    for time in (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    ):
        meta = NewCommit(message="m", author_time=time)
        at = versions.commit("main", at, meta, [put(f"t{time.year}", table(1))]).target_branch.hash
        assert versions.list_log(at, limit=1)[0].commit_meta.author_time == time


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (msgspec.structs.replace(table(1), snapshot_id=2**63), "snapshotId"),
        (msgspec.structs.replace(table(1), schema_id=2**31), "schemaId"),
        (msgspec.structs.replace(table(1), metadata_location=" "), "metadataLocation"),
        (msgspec.structs.replace(view(1), version_id=-(2**63) - 1), "versionId"),
        (namespace("n", a="\ud800"), "surrogates"),
    ],
)
def test_a_content_that_could_not_be_read_again_is_refused(
    versions: VersionStore, content: Content, field: str
) -> None:
    before = update(versions, "t", 1)
    with pytest.raises(BadRequest, match=field):
        commit(versions, put("u", content))
    assert head(versions) == before


def test_what_is_no_hash_is_refused(versions: VersionStore) -> None:
    for text in ("z" * 64, "", "abc", "ab " * 21 + "a"):
        with pytest.raises(BadRequest, match="hash"):
            commit(versions, put("t", table(1)), at=text or "-")  # type: ignore[arg-type]


def test_a_commit_has_a_greatest_size(versions: VersionStore) -> None:
    with pytest.raises(BadRequest, match="100001 operations; at most 100000"):
        commit(versions, *[unchanged("t")] * 100_001)


class Counted(bytes):
    """A key that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: bytes) -> bool:
        Counted.compared += 1
        return bytes.__lt__(self, other)

    def __ge__(self, other: bytes) -> bool:
        Counted.compared += 1
        return bytes.__ge__(self, other)

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return bytes.__eq__(self, other)

    __hash__ = bytes.__hash__


def test_many_namespaces_go_in_time_proportional_to_their_number(store: Store, versions: VersionStore) -> None:
    names = [f"n{n}" for n in range(1000)]
    at = commit(versions, *(put(name, namespace(name)) for name in names))
    keys = [Counted(key(name).to_bytes()) for name in names]
    Counted.compared = 0
    with store.read() as tx:
        root = root_of(find_commit(tx, at))
        leaves = tree.get_many(StoredNodes(tx), root, keys)
        children = [(Counted(key + b"\x00t"), leaves[key]) for key in keys]
        changes = [*((key, None) for key in keys), *children]
        found = get_namespace_conflicts(tx, root, changes, [key for key, _ in children], leaves)
    assert {conflict.conflict_type for conflict in found} == {"NAMESPACE_NOT_EMPTY"} and len(found) == len(names)
    assert Counted.compared < 200 * len(names)
