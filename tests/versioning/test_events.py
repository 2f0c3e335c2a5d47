"""Events: one for each row of the reference log, in its order, with what the new commits did."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from nessie_ops.model import (
    NO_ANCESTOR,
    ContentType,
    EventKind,
    Merge,
    NewCommit,
    ReferenceType,
    Transplant,
)
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore, events
from tests.versioning.helpers import commit, content_id, delete, head, put, table, update


def test_every_change_of_a_reference_is_an_event(versions: VersionStore) -> None:
    first = commit(versions, put("a", table(1)))
    versions.create_reference(ReferenceType.BRANCH, "dev", first)
    second = update(versions, "b", 1, branch="dev")
    versions.update_properties("dev", {"owner": "me"})
    request = Merge(from_ref="dev", from_hash=second, meta=NewCommit(message=""))
    merged = versions.merge("main", first, request).resultant_target_hash
    versions.create_reference(ReferenceType.TAG, "v1", first)
    versions.assign_reference("v1", first, second)
    versions.delete_reference("dev", second)
    found = versions.list_events().events
    assert [(event.kind.value, event.reference, event.hash_before, event.hash_after) for event in found] == [
        ("REFERENCE_CREATED", "main", None, NO_ANCESTOR),
        ("COMMIT", "main", NO_ANCESTOR, first),
        ("REFERENCE_CREATED", "dev", None, first),
        ("COMMIT", "dev", first, second),
        ("REFERENCE_PROPERTIES", "dev", second, second),
        ("MERGE", "main", first, merged),
        ("REFERENCE_CREATED", "v1", None, first),
        ("REFERENCE_UPDATED", "v1", first, second),
        ("REFERENCE_DELETED", "dev", second, None),
    ]
    assert [event.seq for event in found] == list(range(found[0].seq, found[0].seq + 9))
    assert [len(event.commits) for event in found] == [0, 1, 0, 1, 0, 1, 0, 0, 0]
    assert found[5].commits[0].commit_meta.parent_commit_hashes == (first, second)
    assert found[7].reference_type is ReferenceType.TAG


def test_a_commit_tells_what_it_did_and_who_did_it(versions: VersionStore) -> None:
    commit(versions, put("a", table(1)), put("z", table(1)))
    old = content_id(versions, "a")
    at = head(versions)
    versions.commit("main", at, NewCommit(message="why", committer="me"), [delete("a"), put("b", table(2))])
    [event] = versions.list_events(after_seq=2).events
    [told] = event.commits
    assert (told.commit_meta.message, told.commit_meta.committer, told.has_more) == ("why", "me", False)
    assert [(row.type, str(row.key), row.content_type) for row in told.operations] == [
        ("DELETE", "a", None),
        ("PUT", "b", ContentType.ICEBERG_TABLE),
    ]
    assert told.operations[1].content_id == content_id(versions, "b") != old


def test_a_transplant_is_one_event_with_its_commits_oldest_first(versions: VersionStore) -> None:
    first = commit(versions, put("a", table(1)))
    versions.create_reference(ReferenceType.BRANCH, "dev", first)
    hashes = tuple(update(versions, f"t{n}", 1, branch="dev") for n in range(events.MAX_COMMITS + 1))
    last = versions.list_moves(newest_first=True)[0].seq
    for some in (hashes[:2], hashes):
        versions.assign_reference("main", None, first)
        versions.transplant("main", None, Transplant(from_ref="dev", hashes=some, meta=NewCommit(message="")))
    _, short, _, long = versions.list_events(after_seq=last).events
    assert (short.kind, short.hash_before, short.has_more) == (EventKind.TRANSPLANT, first, False)
    assert [str(told.operations[0].key) for told in short.commits] == ["t0", "t1"]
    assert short.commits[-1].commit_meta.hash == short.hash_after
    assert long.has_more and len(long.commits) == events.MAX_COMMITS
    assert str(long.commits[-1].operations[0].key) == f"t{events.MAX_COMMITS}", "the newest are told"


def test_ids_are_those_of_the_row_for_ever(store: Store) -> None:
    versions = VersionStore(store)
    for n in range(3):
        update(versions, f"t{n}", 1)
    ids = [event.id for event in versions.list_events().events]
    assert len(set(ids)) == 4
    again = VersionStore(store)
    assert [event.id for event in again.list_events(limit=2).events + again.list_events(after_seq=2).events] == ids
    other = VersionStore(Store.open("sqlite://"))
    assert other.list_events().events[0].id not in ids
    other.close()


def test_pages_go_on_after_the_last_row_that_was_looked_at(versions: VersionStore) -> None:
    for n in range(5):
        update(versions, f"t{n}", 1)
    page = versions.list_events(limit=4, accepts=lambda move: events.kind_of(move) is EventKind.REFERENCE_CREATED)
    assert ([event.seq for event in page.events], page.last_seq) == ([1], 4)
    page = versions.list_events(after_seq=page.last_seq, limit=4)
    assert ([event.seq for event in page.events], page.last_seq) == ([5, 6], 6)
    assert versions.list_events(after_seq=6) == ([], 6)


def test_an_event_is_bounded(versions: VersionStore) -> None:
    many = [put(f"t{n}", table(1)) for n in range(events.MAX_OPERATIONS + 1)]
    commit(versions, *many)
    at = head(versions)
    versions.commit("main", at, NewCommit(message="x" * events.MAX_BYTES), [delete("t0")])
    wide, long = versions.list_events(after_seq=1).events
    assert len(wide.commits[0].operations) == events.MAX_OPERATIONS and wide.commits[0].has_more
    assert not wide.has_more
    assert (long.commits, long.has_more, long.hash_before) == ((), True, at)


@dataclass
class Count:
    value: int = 0

    def add(self) -> None:
        self.value += 1


def test_listeners_hear_of_moves_and_of_nothing_else(versions: VersionStore) -> None:
    heard, other = Count(), Count()
    end = versions.store.moved.listen(heard.add)
    versions.store.moved.listen(other.add)
    update(versions, "t", 1)
    assert heard.value == 1
    versions.list_events()
    with pytest.raises(Exception, match="not found"):
        commit(versions, put("t", table(1)), branch="nowhere", at=NO_ANCESTOR)
    assert heard.value == 1
    threads = [threading.Thread(target=update, args=(versions, f"t{n}", 1)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    before = heard.value
    assert 2 <= before <= 5, "writers that wait together are one transaction"
    end()
    update(versions, "t", 2)
    assert (heard.value, other.value) == (before, before + 1)
