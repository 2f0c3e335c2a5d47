"""The live-set database: every method on every kind of database, twice over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nessie_ops.errors import BadRequest, StoreUnavailable
from nessie_ops.store.livesets import (
    BaseRecord,
    FileRecord,
    ListingRecord,
    LiveSets,
    ReferenceRecord,
    VersionRecord,
)

LONG = "s3://bucket/" + "ä b%3A/" * 300 + "x.parquet"
REFERENCES = [
    ReferenceRecord(0, "main", "BRANCH", "a" * 64, "NONE"),
    ReferenceRecord(1, "b" * 900, "TAG", "b" * 64, "3"),
]


@pytest.fixture
def sets(database_url: str) -> Iterator[LiveSets]:
    sets = LiveSets.open(database_url)
    yield sets
    sets.close()


def version(n: int, reference: str = "main") -> VersionRecord:
    return VersionRecord(f"id{n % 3}", 1, f"{LONG}/{n}.json", n, "a.b", "c" * 64, reference)


def test_a_live_set_from_its_beginning_to_its_end(sets: LiveSets) -> None:
    number = sets.add("one", "IDENTIFY_IN_PROGRESS", 1_700_000_000_000_000, "{}", REFERENCES)
    assert sets.list_references(number) == REFERENCES
    for _ in range(2):  # work done again changes nothing
        sets.finish_reference(number, 0, 7, "d" * 64, (version(n) for n in range(2500)))
    sets.finish_reference(number, 1, 0, "d" * 64, [version(5, "another")])
    assert sets.count_versions(number) == (3, 2500)
    assert sorted(sets.list_versions(number)) == sorted(version(n) for n in range(2500))
    assert sets.list_references(number)[0] == REFERENCES[0]._replace(is_done=1, commits=7, last="d" * 64)

    sets.add_bases(number, [BaseRecord("id1", LONG), BaseRecord("id2", LONG), BaseRecord("id1", LONG)])
    files = [FileRecord(f"{LONG}{n}", LONG, 10, 5) for n in range(1500)]
    for _ in range(2):
        sets.add_files(number, files, ListingRecord(LONG, '{"a": 1}'))
    assert sets.list_bases(number) == [BaseRecord("id1", LONG), BaseRecord("id2", LONG)]
    assert sets.list_listings(number) == [ListingRecord(LONG, '{"a": 1}')]
    assert sorted(sets.list_files(number)) == sorted(files)
    sets.set_reasons(number, [(files[9].location, "why")])
    assert sets.get_file(number, files[9].location) == files[9]._replace(reason="why")
    assert sets.get_file(number, "nothing") is None
    sets.set_states(number, [(files[3].location, "failed", "no" * 5000), (files[4].location, "deleted", "")])
    assert sets.sum_files(number) == {"pending": (1498, 14980), "failed": (1, 10), "deleted": (1, 10)}
    assert [file.location for file in sets.list_files(number, ["deleted"])] == [files[4].location]
    sets.forget_candidates(number)
    assert sets.list_listings(number) == []
    assert [file.location for file in sets.list_files(number)] == [files[4].location]

    other = sets.add("two", "IDENTIFY_IN_PROGRESS", 1_800_000_000_000_000, "{}", [])
    sets.add_bases(other, [BaseRecord("id1", LONG)])
    assert sorted(sets.list_known_bases([number, other])) == [BaseRecord("id1", LONG), BaseRecord("id2", LONG)]
    assert sets.list_known_bases([other]) == [BaseRecord("id1", LONG)]
    sets.forget_bases(other)
    assert sets.list_known_bases([other]) == []
    assert [found.id for found in sets.list_live_sets()] == ["two", "one"]
    sets.delete(number)
    assert sets.get("one") is None
    assert sets.count_versions(number) == (0, 0)
    assert [found.id for found in sets.list_live_sets()] == ["two"]


def test_a_status_changes_once(sets: LiveSets) -> None:
    number = sets.add("one", "IDENTIFY_SUCCESS", 1, "{}", [])
    expected = {"status": "IDENTIFY_SUCCESS"}
    assert sets.change(number, expected=expected, status="EXPIRY_IN_PROGRESS", expiry_started_at=5)
    assert not sets.change(number, expected=expected, status="EXPIRY_IN_PROGRESS")
    found = sets.get("one")
    assert found is not None
    assert (found.status, found.expiry_started_at) == ("EXPIRY_IN_PROGRESS", 5)


def test_a_live_set_has_one_owner_until_its_lease_ends(sets: LiveSets) -> None:
    number = sets.add("one", "IDENTIFY_IN_PROGRESS", 1, "{}", [])
    assert sets.take(number, "me", now=10, until=20)
    assert sets.take(number, "me", now=11, until=21)
    assert not sets.take(number, "you", now=20, until=30)
    assert sets.take(number, "you", now=22, until=30)
    assert not sets.take(number, "me", now=23, until=40)


def test_tables_are_made_and_dropped_as_asked(database_url: str) -> None:
    sets = LiveSets.open(database_url, create=False)
    try:
        with pytest.raises(BadRequest, match="create-sql-schema"):
            sets.check_tables()
        with pytest.raises(StoreUnavailable):
            sets.list_live_sets()
        sets.create_tables(must_be_new=True)
        sets.check_tables()
        sets.add("one", "IDENTIFY_SUCCESS", 1, "{}", [])
        with pytest.raises(BadRequest, match="exist already"):
            sets.create_tables(must_be_new=True)
        sets.create_tables()
        assert len(sets.list_live_sets()) == 1
        sets.create_tables(drop=True)
        assert sets.list_live_sets() == []
    finally:
        sets.close()


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "mariadb"])
def test_the_ddl_is_that_of_the_database(name: str) -> None:
    statements = LiveSets.ddl(name)
    assert [text.split("(")[0].split()[:3] for text in statements[:1]] == [["CREATE", "TABLE", "gc_live_set"]]
    assert len(statements) == 7  # six tables and an index
