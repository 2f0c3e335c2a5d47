"""`store check` finds nothing in a healthy store, and names every damage of each kind."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nessie_ops.cli import build_app
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore, tree
from nessie_ops.versioning.codec import Leaf, commit_id
from nessie_ops.versioning.objects import StoredNodes, load_commit
from nessie_ops.versioning.tree import Node
from tests.store.helpers import faults_of, fill
from tests.versioning.helpers import head

UNORDERED = b"\x92\x92\xc4\x01b\xc0\x92\xc4\x01a\xc0"  # deletions of b, then a


class Victim:
    """A store to damage: the head of main is a merge, its index has two levels or more."""

    def __init__(self, store: Store, path: Path) -> None:
        self.store, self.path = store, path
        versions = VersionStore(store)
        fill(versions)
        with store.read() as tx:
            commit = load_commit(tx, bytes.fromhex(head(versions)))
            assert commit and commit.parent and commit.merge_parent
            self.commit = commit
            nodes = StoredNodes(tx)
            path = [commit.root]
            while (node := nodes.load(path[-1])).level:
                path.append(node.values[0])
            self.leaf_id, self.leaf = path[-1], node
            self.parent = nodes.load(path[-2])
        assert len(path) >= 2 and len(self.leaf.keys) >= 8 and len(self.parent.keys) >= 3

    def sql(self, statement: str, **parameters: object) -> None:
        """Run a statement behind the store's back, and without the database's own guard of foreign keys."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as database:
            database.execute(statement, parameters)

    def add(self, level: int, keys: list[bytes], values: list[bytes]) -> bytes:
        """Store a node as it is; its id."""
        raw = Node(level, keys, values).encode()
        id = tree.node_id(raw)
        self.sql("INSERT INTO node VALUES (:id, :data, 0)", id=id, data=b"\x00" + raw)
        return id

    def part(self, start: int, stop: int) -> bytes:
        return self.add(0, list(self.leaf.keys[start:stop]), list(self.leaf.values[start:stop]))


Damage = Callable[[Victim], str]
DAMAGES: list[Damage] = []


def damage(function: Damage) -> Damage:
    """Register a function that damages a store and says what must be found."""
    DAMAGES.append(function)
    return function


@damage
def drop_leaf(victim: Victim) -> str:
    victim.sql("DELETE FROM node WHERE id = :id", id=victim.leaf_id)
    return f"its child {victim.leaf_id.hex()} does not exist or is damaged"


@damage
def drop_root(victim: Victim) -> str:
    victim.sql("DELETE FROM node WHERE id = :id", id=victim.commit.root)
    return f"commit {victim.commit.hash}: its index {victim.commit.root.hex()} does not exist or is damaged"


@damage
def change_node(victim: Victim) -> str:
    raw = victim.leaf.encode()
    victim.sql("UPDATE node SET data = :data WHERE id = :id", id=victim.leaf_id, data=b"\x00" + raw[:-1] + b"?")
    return f"node {victim.leaf_id.hex()}: its id is not the hash of its bytes"


@damage
def garble_node(victim: Victim) -> str:
    victim.sql("UPDATE node SET data = :data WHERE id = :id", id=victim.leaf_id, data=b"\x01garbled")
    return f"node {victim.leaf_id.hex()}: cannot be unpacked"


@damage
def write_no_node(victim: Victim) -> str:
    raw = b"\x00\x00\x09no node at all"
    victim.sql("INSERT INTO node VALUES (:id, :data, 0)", id=tree.node_id(raw), data=b"\x01" + zlib.compress(raw))
    return f"node {tree.node_id(raw).hex()}: its bytes are not those of a node"


@damage
def disorder_keys(victim: Victim) -> str:
    keys = [victim.leaf.keys[1], victim.leaf.keys[0]]
    id = victim.add(0, keys, list(victim.leaf.values[:2]))
    return f"node {id.hex()}: its keys are not in order"


@damage
def cross_a_boundary(victim: Victim) -> str:
    keys = [*victim.leaf.keys, victim.leaf.keys[-1] + b"x"]
    id = victim.add(0, keys, [*victim.leaf.values, victim.leaf.values[0]])
    return f"node {id.hex()}: it goes on behind a boundary, so its shape is not canonical"


@damage
def stop_before_a_boundary(victim: Victim) -> str:
    children = [victim.part(0, 4), victim.leaf_id]
    victim.sql("DELETE FROM node WHERE id = :id", id=children[1])
    children[1] = victim.part(4, len(victim.leaf.keys))
    victim.add(1, [victim.leaf.keys[3], victim.leaf.keys[-1]], children)
    return f"its child {children[0].hex()} does not end at a boundary, so the shape is not canonical"


@damage
def overlap_children(victim: Victim) -> str:
    middle = len(victim.leaf.keys) // 2
    after = victim.part(middle - 2, len(victim.leaf.keys))
    victim.add(1, [victim.leaf.keys[middle], victim.leaf.keys[-1]], [victim.part(0, middle + 1), after])
    return f"its child {after.hex()} begins with key {text(victim.leaf.keys[middle - 2])}, before the end"


@damage
def mistake_a_greatest_key(victim: Victim) -> str:
    victim.add(1, [victim.leaf.keys[-1] + b"x"], [victim.leaf_id])
    return f"its child {victim.leaf_id.hex()} ends with key {text(victim.leaf.keys[-1])}, not "


@damage
def skip_a_level(victim: Victim) -> str:
    victim.add(2, [victim.leaf.keys[-1]], [victim.leaf_id])
    return f"its child {victim.leaf_id.hex()} has level 0, not 1"


@damage
def put_a_level_too_many(victim: Victim) -> str:
    root = victim.add(1, [victim.leaf.keys[-1]], [victim.leaf_id])
    victim.sql('UPDATE "commit" SET root = :root WHERE id = :id', root=root, id=victim.commit.id)
    return f"its index {root.hex()} has a level too many"


@damage
def drop_content(victim: Victim) -> str:
    digest = victim.leaf.values[0][17:]
    victim.sql("DELETE FROM content WHERE id = :id", id=digest)
    return f"node {victim.leaf_id.hex()}: key {text(victim.leaf.keys[0])}: its content {digest.hex()} does not exist"


@damage
def change_content(victim: Victim) -> str:
    digest = victim.leaf.values[0][17:]
    victim.sql("UPDATE content SET data = :data WHERE id = :id", id=digest, data=b"\x00{}")
    return f"content {digest.hex()}: "


@damage
def mistake_a_content_id(victim: Victim) -> str:
    leaf = Leaf.decode(victim.leaf.values[1])
    other = Leaf(leaf.type, Leaf.decode(victim.leaf.values[2]).content_id, leaf.digest).encode()
    id = victim.add(0, [victim.leaf.keys[1]], [other])
    return f"node {id.hex()}: key {text(victim.leaf.keys[1])}: it has another type or content id than its content"


def change_commit(column: str, value: object, problem: str) -> Damage:
    def change(victim: Victim) -> str:
        statement = f'UPDATE "commit" SET "{column}" = :value WHERE id = :id'
        victim.sql(statement, value=value, id=victim.commit.id)
        return f"commit {victim.commit.hash}: {problem}"

    return change


for name, value, problem in (
    ("time", 1, "its time is before that of its parent"),
    ("depth", 1, "its depth is 1, not 7"),
    ("generation", 1, "its generation is 1, not 8"),
    ("jump", bytes(32), "its jump pointer is 00"),
    ("meta", b"[]", "its words or operations cannot be read: "),
    ("meta", b'["",[],[],"x",1,{}]', "its id is not the hash of its bytes"),
    ("operations", b"\x91\x92\xa1a\xc4\x00", "its words or operations cannot be read: "),
    ("parent", bytes(32), f"its parent {bytes(32).hex()} does not exist"),
    ("merge_parent", bytes(32), f"its merge parent {bytes(32).hex()} does not exist"),
):
    DAMAGES.append(change_commit(name, value, problem))


@damage
def drop_commit(victim: Victim) -> str:
    parent = victim.commit.parent or b""
    victim.sql('DELETE FROM "commit" WHERE id = :id', id=parent)
    return f"commit {victim.commit.hash}: its parent {parent.hex()} does not exist"


@damage
def reorder_operations(victim: Victim) -> str:
    victim.sql(
        'UPDATE "commit" SET operations = :raw WHERE id = :id',
        raw=b"\x92\x92\xc4\x01b\xc0\x92\xc4\x01a\xc0",
        id=victim.commit.id,
    )
    return f"commit {victim.commit.hash}: its operations are not in the canonical form"


@damage
def drop_head(victim: Victim) -> str:
    victim.sql("UPDATE reference SET head = :head WHERE name = 'v1'", head=bytes(32))
    return f"reference v1: its head {bytes(32).hex()} does not exist"


def run_sql(statement: str, *found: str) -> Damage:
    def change(victim: Victim) -> str:
        victim.sql(statement)
        return found[0]

    return change


for statement, problem in {
    "UPDATE reference SET type = 'TWIG' WHERE name = 'v1'": "reference v1: its type is 'TWIG'",
    "UPDATE reference SET properties = '{' WHERE name = 'v1'": "reference v1: its properties cannot be read",
    "UPDATE reference SET head = NULL WHERE name = 'v1'": "reference v1: its head is not the one in the reference log",
    "DELETE FROM reference WHERE name = 'v1'": "reference v1: it exists by the reference log, but does not",
    "INSERT INTO reference VALUES ('new', 'TAG', NULL, 0, '{}')": "reference new: it exists, but not by the reference",
    "DELETE FROM reference_log WHERE seq = 5": "reference log 6: the row before it is 4",
    "UPDATE reference_log SET before = NULL WHERE seq = 5": "reference log 5: 'side' was not where this row says",
    "UPDATE reference_log SET action = 'CREATED' WHERE seq = 5": "reference log 5: 'side' is created, but existed",
    "UPDATE reference_log SET action = 'DELETED' WHERE seq = 5": "is changed (COMMITTED), but did not exist",
    "UPDATE counter SET value = 3": "counter reference_log: is 3, but the log ends with 16",
    "DELETE FROM counter": "counter reference_log: is None, but the log ends with 16",
    "UPDATE setting SET value = 'none' WHERE name = 'default_branch'": "setting default_branch: there is no branch",
    "DELETE FROM setting WHERE name = 'default_branch'": "setting default_branch: does not exist",
    "DELETE FROM setting WHERE name = 'created_at'": "setting created_at: does not exist",
}.items():
    DAMAGES.append(run_sql(statement, problem))


def text(key: bytes) -> str:
    return repr(key.replace(b"\x00", b".").decode())


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    store = Store.open(f"sqlite:///{tmp_path}/catalog.db")
    yield Victim(store, tmp_path / "catalog.db")
    store.close()


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_a_damage_is_named(victim: Victim, number: int) -> None:
    assert faults_of(victim.store) == []
    expected = DAMAGES[number](victim)
    found = faults_of(victim.store)
    assert any(expected in fault for fault in found), (expected, found[:10])


def test_ids_are_those_of_the_format(victim: Victim) -> None:
    """So that a check that used the code under test alone would not pass by agreeing with itself."""
    commit = victim.commit
    hashed = (commit.parent, commit.merge_parent, commit.time, commit.root, commit.meta, commit.operations)
    assert commit_id(*hashed) == commit.id


def test_the_command(victim: Victim, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    app = build_app(lambda **options: None)
    healthy = CliRunner().invoke(app, ["store", "check", "--store", url])
    assert (healthy.exit_code, healthy.stdout) == (0, "no fault found\n")
    expected = drop_head(victim)
    damaged = CliRunner().invoke(app, ["store", "check", "--store", url])
    assert damaged.exit_code == 1 and damaged.stdout.startswith(expected) and "2 faults found" in damaged.stderr
    listed = CliRunner().invoke(app, ["store", "check", "--store", url, "--json"])
    faults = json.loads(listed.stdout)["faults"]
    assert listed.exit_code == 1 and faults[0]["kind"] == "reference" and faults[0]["id"] == "v1" and len(faults) == 2
