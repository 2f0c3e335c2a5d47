"""Resolving, listing, logs and diffs; walks over long histories read few rows."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import (
    NO_ANCESTOR,
    Branch,
    CommitHash,
    Detached,
    Merge,
    NewCommit,
    ReferenceType,
    Tag,
)
from nessie_ops.store import Cache, Store
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import commit, delete, head, key, namespace, put, table, update

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def chain(store: Store) -> tuple[VersionStore, list[CommitHash]]:
    """40 commits, an hour apart; number 0 is "no commit"."""
    ticks = iter(range(10_000))
    versions = VersionStore(store, clock=lambda: START + timedelta(minutes=30 * next(ticks)))
    return versions, [NO_ANCESTOR] + [update(versions, "t", n) for n in range(40)]


def test_specifications(chain: tuple[VersionStore, list[CommitHash]]) -> None:
    versions, hashes = chain
    versions.create_reference(ReferenceType.TAG, "v1", hashes[10])
    versions.create_reference(ReferenceType.BRANCH, "run/x", hashes[3])
    versions.merge("main", None, Merge(from_ref="run/x", from_hash=hashes[3], meta=NewCommit(message="")))
    for spec, want in [
        ("main", Branch("main", hashes[40])),
        ("-", Branch("main", hashes[40])),
        ("main@", Branch("main", hashes[40])),
        ("main~3", Branch("main", hashes[37])),
        ("main^1~2^1", Branch("main", hashes[36])),
        ("main^2", Branch("main", NO_ANCESTOR)),
        ("main~40", Branch("main", NO_ANCESTOR)),
        ("main~999", Branch("main", NO_ANCESTOR)),
        (f"main@{hashes[20]}", Branch("main", hashes[20])),
        (f"main@{hashes[20].upper()}~5", Branch("main", hashes[15])),
        (f"@{hashes[20]}", Detached(hashes[20])),
        (f"DETACHED@{hashes[20]}~1", Detached(hashes[19])),
        ("v1~1", Tag("v1", hashes[9])),
        ("run/x", Branch("run/x", hashes[3])),
        ("-~1", Branch("main", hashes[39])),
    ]:
        assert versions.resolve(spec) == want, spec
    time = versions.get_commit(hashes[25]).commit_time
    millis = int(time.timestamp() * 1000)
    assert versions.resolve(f"main*{millis}").hash == hashes[25]
    assert versions.resolve(f"main*{(time + timedelta(minutes=1)).isoformat()}").hash == hashes[25]
    assert versions.resolve(f"main*{(time - timedelta(minutes=1)).isoformat()}~2").hash == hashes[22]
    assert versions.resolve("main*2020-01-01T00:00:00Z").hash == NO_ANCESTOR


@pytest.mark.parametrize(
    "spec",
    ["", "@", "DETACHED", "~1", "@~1", "main~0", "main^0", "main^x", "main*x", "a b", "abcdef0123", "HEAD", "x."],
)
def test_specifications_that_cannot_be(versions: VersionStore, spec: str) -> None:
    with pytest.raises(BadRequest):
        versions.resolve(spec)


def test_unknown_names_and_commits(versions: VersionStore) -> None:
    with pytest.raises(ReferenceNotFound, match="Named reference 'nope' not found"):
        versions.resolve("nope")
    with pytest.raises(ReferenceNotFound, match="Commit '5fbb30ea13e2602e' not found"):
        versions.resolve("main@5fbb30ea13e2602e")


def test_log(chain: tuple[VersionStore, list[CommitHash]]) -> None:
    versions, hashes = chain
    log = versions.list_log(hashes[40])
    assert [entry.commit_meta.hash for entry in log] == hashes[:0:-1]
    assert [entry.parent_commit_hash for entry in log] == hashes[-2::-1]
    assert [e.commit_meta.hash for e in versions.list_log(hashes[40], limit=3)] == hashes[40:37:-1]
    assert [e.commit_meta.hash for e in versions.list_log(hashes[9], limit_hash=hashes[7])] == hashes[9:6:-1]
    assert versions.list_log(NO_ANCESTOR) == []
    operations = versions.list_log(hashes[40], limit=1, with_operations=True)[0].operations
    assert operations is not None and operations[0].key == key("t")
    assert log[0].operations is None


def test_log_operations_are_deletes_then_puts_by_key(versions: VersionStore) -> None:
    commit(versions, put("b", table(1)), put("z", table(1)))
    commit(versions, put("y", table(1)), put("a", table(1)), delete("z"), delete("b"), put("b", table(2)))
    operations = versions.list_log(head(versions), with_operations=True)[0].operations or ()
    assert [(type(o).__name__, str(o.key)) for o in operations] == [
        ("Delete", "z"),
        ("PutLog", "a"),
        ("PutLog", "b"),
        ("PutLog", "y"),
    ]


def test_entries_in_path_order_by_range_and_prefix(versions: VersionStore) -> None:
    names = ["a", "a.b", "a.b.c", "a!", "B", "ab", "é"]
    puts = [put(n, namespace(n) if n in ("a", "a.b") else table(1)) for n in names]
    at = commit(versions, *puts)

    def listed(**options: object) -> list[str]:
        return [str(entry.name) for entry in versions.list_entries(at, **options)]  # type: ignore[arg-type]

    assert listed() == ["B", "a", "a.b", "a.b.c", "a!", "ab", "é"]
    assert listed(prefix=key("a")) == ["a", "a.b", "a.b.c"]
    assert listed(prefix=key("a"), first=key("a.b")) == ["a.b", "a.b.c"]
    assert listed(first=key("a.b"), last=key("a!")) == ["a.b", "a.b.c", "a!"]
    assert listed(last=key("a")) == ["B", "a"]
    assert listed(first=key("z"), last=key("b")) == []
    assert listed(limit=2) == ["B", "a"]
    row = versions.list_entries(at, prefix=key("ab"), with_content=True)[0]
    assert row.content is not None and row.content.id == row.content_id


def test_diff(versions: VersionStore) -> None:
    before = commit(versions, put("same", table(1)), put("old", table(1)), put("t", table(1)))
    commit(versions, delete("old"), put("new", table(1)))
    after = update(versions, "t", 2)

    def shown(a: CommitHash, b: CommitHash) -> list[tuple[str, object, object]]:
        rows = versions.diff(a, b)
        return [
            (str(r.key), getattr(r.before, "snapshot_id", None), getattr(r.after, "snapshot_id", None)) for r in rows
        ]

    assert shown(before, after) == [("new", None, 1), ("old", 1, None), ("t", 1, 2)]
    assert shown(after, before) == [("new", 1, None), ("old", None, 1), ("t", 2, 1)]
    assert shown(after, after) == []
    assert [row[0] for row in shown(NO_ANCESTOR, before)] == ["old", "same", "t"]
    assert [str(row.key) for row in versions.diff(before, after, first=key("o"), limit=1)] == ["old"]


def test_compare(versions: VersionStore) -> None:
    base = [update(versions, "t", n) for n in range(9)][-1]
    versions.create_reference(ReferenceType.BRANCH, "f", base)
    for n in range(5):
        update(versions, "a", n, "f")
    for n in range(17):
        update(versions, "b", n)
    assert versions.compare(head(versions, "f"), head(versions)) == (5, 17, base, 14)
    assert versions.compare(head(versions), head(versions)) == (0, 0, head(versions), 26)
    assert versions.compare(NO_ANCESTOR, head(versions)) == (0, 26, NO_ANCESTOR, 0)


def test_merge_base_agrees_with_sets_of_ancestors(versions: VersionStore) -> None:
    """On random graphs the base is a common ancestor that has no other common ancestor above it."""
    random_ = random.Random(7)
    update(versions, "t", 0)
    branches = ["main"]
    for n in range(60):
        branch = random_.choice(branches)
        action = random_.random()
        if action < 0.2 and len(branches) < 6:
            versions.create_reference(ReferenceType.BRANCH, f"b{n}", head(versions, branch))
            branches.append(f"b{n}")
        elif action < 0.6:
            update(versions, f"k{n}", n, branch)
        else:
            source = random_.choice(branches)
            request = Merge(from_ref=source, from_hash=head(versions, source), meta=NewCommit(message=""))
            versions.merge(branch, None, request) if source != branch else None
    heads = [head(versions, branch) for branch in branches]

    def ancestors(commit: CommitHash) -> set[CommitHash]:
        seen, todo = {NO_ANCESTOR}, [commit]
        while todo:
            if (at := todo.pop()) not in seen:
                seen.add(at)
                todo += versions.get_commit(at).parent_commit_hashes
        return seen - {NO_ANCESTOR}

    for a in heads:
        for b in heads:
            common = ancestors(a) & ancestors(b)
            base = versions.get_merge_base(a, b)
            assert base in common
            assert not any(base in ancestors(other) - {other} for other in common)


def test_far_ancestors_cost_few_reads(tmp_path: object) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/long.db", cache=Cache(0))
    versions = VersionStore(store)
    hashes = [update(versions, "t", n) for n in range(600)]
    for n in (1, 17, 256, 511, 599):
        store.reads.clear()
        assert versions.resolve(f"main~{n}").hash == hashes[599 - n]
        assert store.reads["commit"] <= 40, n
    store.close()


def test_a_merge_base_far_back_takes_few_round_trips(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/long.db", cache=Cache(0))
    versions = VersionStore(store)
    base = update(versions, "t", 0)
    versions.create_reference(ReferenceType.BRANCH, "f", base)
    versions.create_reference(ReferenceType.BRANCH, "alien", NO_ANCESTOR)
    side, alien = update(versions, "u", 1, "f"), update(versions, "u", 1, "alien")
    for n in range(400):
        update(versions, "t", n)
    statements = [0]

    def count(*_: object) -> None:
        statements[0] += 1

    event.listen(store._engine, "before_cursor_execute", count)
    assert versions.get_merge_base(head(versions), side) == base
    assert statements[0] <= 60
    store.reads.clear()
    assert versions.get_merge_base(head(versions), alien) is None
    assert store.reads["commit"] <= 60, "histories without a common root are not walked"
    store.close()
