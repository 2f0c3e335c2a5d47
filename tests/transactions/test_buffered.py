"""Transactions that are one commit: on a version store, and the same over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nessie_ops.buffering import BufferedTransaction
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, ContentNotFound, ReferenceConflict, TransactionConflict, TransactionNotOpen
from nessie_ops.model import (
    IcebergTable,
    Isolation,
    NewCommit,
    ReferenceType,
    UnchangedRange,
    with_id,
)
from nessie_ops.versioning import VersionStore
from tests.server.helpers import running_server
from tests.versioning.helpers import commit, delete, key, namespace, put, table, update

READ_COMMITTED, REPEATED_READ, SERIALIZABLE = Isolation
LEVELS = list(Isolation)
Catalog = VersionStore | NessieClient


@pytest.fixture(params=["store", "http"])
def catalog(request: pytest.FixtureRequest) -> Iterator[Catalog]:
    """A main with the tables a and b, each at 1."""
    if request.param == "store":
        opened = VersionStore.open("sqlite://")
        fill(opened)
        yield opened
        opened.close()
    else:
        with running_server() as uri, NessieClient(uri) as client:
            fill(client)
            yield client


def fill(catalog: Catalog) -> None:
    catalog.commit("main", head(catalog), NewCommit(message="fill"), [put("a", table(1)), put("b", table(1))])


def head(catalog: Catalog) -> str:
    return catalog.get_reference("main").hash


def value(found: object) -> int | None:
    assert found is None or isinstance(found, IcebergTable)
    return found.snapshot_id if found else None


def read(catalog: Catalog | BufferedTransaction, name: str) -> int | None:
    if isinstance(catalog, BufferedTransaction):
        return value(catalog.get(key(name)))
    return value(catalog.get_contents(head(catalog), [key(name)]).get(key(name)))


def write(catalog: Catalog | BufferedTransaction, name: str, n: int, author: str = "bob") -> None:
    """Put the table `name` at `n`, as an update when it is there."""
    if isinstance(catalog, BufferedTransaction):
        before = catalog.get(key(name))
        catalog.put(key(name), table(n, str(before.id) if before else None))
        return
    with catalog.transaction(isolation=REPEATED_READ, message=f"{name} = {n}", author=author) as tx:
        write(tx, name, n)


def count(catalog: Catalog) -> int:
    return len(catalog.list_log(head(catalog)))


@pytest.mark.parametrize("level", LEVELS)
def test_many_tables_are_one_commit(catalog: Catalog, level: Isolation) -> None:
    before = count(catalog)
    with catalog.transaction(on="main", isolation=level, message="move", author="ann") as tx:
        write(tx, "a", 2)
        tx.delete(key("b"))
        tx.put(key("c"), table(3))
        assert [read(tx, name) for name in "abc"] == [2, None, 3]
        assert list(tx.get_contents([key("c"), key("b"), key("a")])) == [key("c"), key("a")]
        assert [str(entry.name) for entry in tx.list_entries()] == ["a", "c"]
        assert [read(catalog, name) for name in "abc"] == [1, 1, None] and count(catalog) == before
    assert tx.result is not None and tx.result.target_branch.hash == head(catalog)
    assert [read(catalog, name) for name in "abc"] == [2, None, 3] and count(catalog) == before + 1
    [entry] = catalog.list_log(head(catalog), limit=1)
    assert (entry.commit_meta.message, entry.commit_meta.authors) == ("move", ("ann",))
    assert tx.result.added_contents and [str(added.key) for added in tx.result.added_contents] == ["c"]


def test_an_exception_leaves_nothing(catalog: Catalog) -> None:
    before = head(catalog)
    with pytest.raises(ZeroDivisionError), catalog.transaction() as tx:
        write(tx, "a", 2)
        raise ZeroDivisionError
    with catalog.transaction() as nothing:
        assert read(nothing, "a") == 1
    assert head(catalog) == before and nothing.result is None
    for use in (lambda: tx.get(key("a")), lambda: tx.put(key("a"), table(1)), tx.commit, tx.list_entries):
        with pytest.raises(TransactionNotOpen):
            use()


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_seen_of_others(catalog: Catalog, level: Isolation) -> None:
    with catalog.transaction(isolation=level) as tx:
        assert read(tx, "a") == 1
        write(catalog, "a", 2)
        write(catalog, "new", 2)
        sees = level is READ_COMMITTED
        assert (read(tx, "a"), read(tx, "new")) == ((2, 2) if sees else (1, None))
        assert [str(entry.name) for entry in tx.list_entries()] == (["a", "b", "new"] if sees else ["a", "b"])
        tx.rollback()


@pytest.mark.parametrize("level", LEVELS)
def test_no_update_is_lost(catalog: Catalog, level: Isolation) -> None:
    tx = catalog.transaction(isolation=level)
    write(tx, "a", 10)
    write(catalog, "a", 2)
    with pytest.raises(TransactionConflict, match=r"main: .*'a'.* by bob in [0-9a-f]{16} at ") as caught:
        tx.commit()
    assert read(catalog, "a") == 2
    [change] = caught.value.changes
    assert (change.key, change.author, change.message, change.commit_hash) == ("a", "bob", "a = 2", head(catalog))


def test_a_table_that_is_read_again_may_be_written_at_read_committed(catalog: Catalog) -> None:
    with catalog.transaction(isolation=READ_COMMITTED) as tx:
        assert read(tx, "a") == 1
        write(catalog, "a", 2)
        write(tx, "a", 3)  # reads it
        write(catalog, "b", 5)
    assert (read(catalog, "a"), read(catalog, "b")) == (3, 5)


def test_a_table_that_was_never_read_is_as_it_was_when_it_was_written(catalog: Catalog) -> None:
    write(catalog, "c", 1)
    id = str(catalog.get_contents(head(catalog), [key("c")])[key("c")].id)
    with pytest.raises(TransactionConflict, match="'c'"), catalog.transaction(isolation=READ_COMMITTED) as tx:
        tx.put(key("c"), with_id(table(2), id))
        write(catalog, "c", 3)
    with pytest.raises(TransactionConflict, match="'d'"), catalog.transaction(isolation=READ_COMMITTED) as tx:
        tx.put(key("d"), table(2))
        write(catalog, "d", 3)
    assert (read(catalog, "c"), read(catalog, "d")) == (3, 3)


@pytest.mark.parametrize("level", LEVELS)
def test_write_skew(catalog: Catalog, level: Isolation) -> None:
    """Two that read both and write one each: serial in no order."""
    one, two = (catalog.transaction(isolation=level) for _ in "12")
    for tx, name in ((one, "a"), (two, "b")):
        assert (read(tx, "a"), read(tx, "b")) == (1, 1)
        write(tx, name, 0)
    one.commit()
    if level is SERIALIZABLE:
        with pytest.raises(TransactionConflict, match="'a'"):
            two.commit()
    else:
        two.commit()
    assert (read(catalog, "a"), read(catalog, "b")) == ((0, 1) if level is SERIALIZABLE else (0, 0))


READS: dict[str, Callable[[BufferedTransaction], object]] = {
    "absent": lambda tx: tx.get(key("db.new")),
    "listing": lambda tx: tx.list_entries(prefix=key("db")),
    "all": lambda tx: tx.list_entries(),
    "range": lambda tx: tx.list_entries(first=key("db.m"), last=key("db.o")),
}


@pytest.mark.parametrize("way", READS)
def test_a_phantom_is_refused_when_serializable(catalog: Catalog, way: str) -> None:
    catalog.commit("main", head(catalog), NewCommit(message="db"), [put("db", namespace("db"))])
    for name, is_refused in (("other", way == "all"), ("db.new", True)):
        tx = catalog.transaction()
        READS[way](tx)
        write(tx, "a", 9)
        write(catalog, name, 1)
        if is_refused:
            with pytest.raises(TransactionConflict, match=f"'{name}' was read as absent, and exists now by bob"):
                tx.commit()
        else:
            tx.commit()


def test_a_listing_with_contents_holds_the_values(catalog: Catalog) -> None:
    for with_content in (False, True):
        tx = catalog.transaction()
        assert len(tx.list_entries(with_content=with_content)) == 2
        tx.put(key("c"), table(1))
        write(catalog, "b", 7 + with_content)
        if with_content:
            with pytest.raises(TransactionConflict, match="'b' was read, and has been changed"):
                tx.commit()
        else:
            tx.commit()
            catalog.commit("main", head(catalog), NewCommit(message="drop"), [delete("c")])


def test_pages_of_a_listing(catalog: Catalog) -> None:
    with catalog.transaction() as tx:
        for name in ("a0", "ab", "z"):
            tx.put(key(name), table(1))
        tx.delete(key("b"))
        names = [str(entry.name) for entry in tx.list_entries(limit=2)]
        names += [str(entry.name) for entry in tx.list_entries(first=key("ab"), limit=2)]
        assert names == ["a", "a0", "ab", "z"]
        found = tx.list_entries(first=key("a0"), last=key("ab"), with_content=True)
        assert [value(entry.content) for entry in found] == [1, 1]
        tx.rollback()


def test_a_page_is_full_whatever_the_buffer_hides(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader takes a page that is not full for the last."""
    monkeypatch.setattr("nessie_ops.buffering.transaction.MAX_ROWS", 2)
    write(catalog, "c", 1)
    with catalog.transaction() as tx:
        tx.delete(key("a"))
        assert [str(entry.name) for entry in tx.list_entries(limit=2)] == ["b", "c"]
        tx.rollback()


def test_what_is_written_and_then_dropped_is_based_on_what_was_seen(catalog: Catalog) -> None:
    tx = catalog.transaction(isolation=READ_COMMITTED)
    write(tx, "a", 2)
    write(catalog, "a", 3)
    tx.delete(key("a"))
    with pytest.raises(TransactionConflict, match="'a'"):
        tx.commit()
    assert read(catalog, "a") == 3


@pytest.mark.parametrize("level", LEVELS)
def test_a_key_that_must_stay_absent(catalog: Catalog, level: Isolation) -> None:
    for other, is_refused in (("other", False), ("absent", True)):
        tx = catalog.transaction(isolation=level)
        tx.require_unchanged(key("absent"))
        tx.put(key("made"), table(1))
        write(catalog, other, 1)
        if is_refused:
            with pytest.raises(TransactionConflict, match="'absent'"):
                tx.commit()
        else:
            tx.commit()
            catalog.commit("main", head(catalog), NewCommit(message="drop"), [delete("made")])


def test_drops_renames_and_second_thoughts(catalog: Catalog) -> None:
    a = catalog.get_contents(head(catalog), [key("a")])[key("a")]
    with catalog.transaction() as tx:
        tx.put(key("new"), table(1))
        tx.delete(key("new"))  # nothing is left of it
        tx.delete(key("a"))
        tx.put(key("moved"), a)  # renamed
        tx.delete(key("b"))
        tx.put(key("b"), table(5))  # another table of that name
        tx.put(key("b"), table(6))
        assert [type(operation).__name__ for operation in tx.operations[:4]] == ["Delete", "Delete", "Put", "Put"]
        with pytest.raises(ContentNotFound, match="no content 'nowhere'"):
            tx.delete(key("nowhere"))
    contents = catalog.get_contents(head(catalog), [key(name) for name in ("a", "moved", "b", "new")])
    assert set(contents) == {key("moved"), key("b")} and contents[key("moved")] == a
    assert value(contents[key("b")]) == 6
    with catalog.transaction() as tx:
        tx.delete(key("moved"))
        tx.put(key("a"), a)
        tx.delete(key("a"))
        tx.put(key("moved"), a)
    assert catalog.get_contents(head(catalog), [key("moved")])[key("moved")] == a


@pytest.mark.parametrize("level", LEVELS)
def test_a_key_that_must_be_unchanged(catalog: Catalog, level: Isolation) -> None:
    for change in (False, True):
        tx = catalog.transaction(isolation=level)
        tx.require_unchanged(key("b"))
        write(tx, "a", 3 + change)
        if change:
            write(catalog, "b", 2)
            with pytest.raises(TransactionConflict, match="'b'"):
                tx.commit()
        else:
            tx.commit("said at the end")
    assert catalog.list_log(head(catalog), limit=2)[1].commit_meta.message == "said at the end"


def test_what_cannot_begin(catalog: Catalog) -> None:
    catalog.create_reference(ReferenceType.TAG, "v1", head(catalog))  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="'v1' is a tag"):
        catalog.transaction(on="v1")


def test_ranges_of_a_commit_are_checked_with_its_keys() -> None:
    versions = VersionStore.open("sqlite://")
    start = commit(versions, put("a", table(1)))
    update(versions, "x", 1)
    asked = UnchangedRange(first=key("w"), last=key("y"))
    with pytest.raises(Exception, match="'x' was read as absent"):
        versions.commit("main", start, NewCommit(message="m"), [put("n", table(1)), asked])
    versions.commit("main", start, NewCommit(message="m"), [put("n", table(1)), UnchangedRange(prefix=key("a"))])
    many = [UnchangedRange(first=key(f"r{n}"), last=key(f"r{n}"), with_content=n % 2 == 0) for n in range(300)]
    update(versions, "between", 1)
    update(versions, "s", 1)
    versions.commit("main", start, NewCommit(message="m"), [put("o", table(1)), *many])
    update(versions, "r7", 1)
    update(versions, "r8", 1)
    with pytest.raises(ReferenceConflict) as caught:
        versions.commit("main", start, NewCommit(message="m"), [put("p", table(1)), *many])
    assert [str(conflict.key) for conflict in caught.value.conflicts] == ["r7", "r8"]
    versions.close()
