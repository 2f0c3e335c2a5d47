"""`nessie-ops merge`, and the options that `transplant` and `revert` share with it."""

from __future__ import annotations

import json

import pytest

from nessie_ops.versioning import VersionStore
from tests.cli.conftest import Invoke
from tests.versioning.helpers import head, update


def keys(versions: VersionStore) -> dict[str, object]:
    entries = versions.list_entries(head(versions), with_content=True)
    return {str(entry.name): getattr(entry.content, "snapshot_id", None) for entry in entries}


def test_a_merge_is_tried_then_done_once(on: Invoke, small: VersionStore) -> None:
    before = head(small)
    assert on("merge", "dev", "--dry-run").stdout == "n.d\nnothing written: a dry run on main\n"
    assert head(small) == before
    done = on("merge", "dev", "-m", "take it", "--author", "ana", "--expected", before)
    assert done.stdout == f"n.d\nmerged dev into main, now at {head(small)}\n" and done.stderr == ""
    meta = small.get_commit(head(small))
    assert (meta.message, meta.authors, len(meta.parent_commit_hashes)) == ("take it", ("ana",), 2)
    again = json.loads(on("merge", "dev", "--json").stdout)
    assert (again["wasApplied"], again["wasSuccessful"]) == (False, True)
    on("merge", "v1", "--branch", "dev")


@pytest.fixture
def torn(small: VersionStore) -> VersionStore:
    """`main` and `dev` both changed n.t and u."""
    for path in ("n.t", "u"):
        update(small, path, 5)
        update(small, path, 6, "dev")
    return small


@pytest.mark.parametrize("command", ["merge", "transplant"])
def test_a_conflict_is_told_for_each_key(on: Invoke, torn: VersionStore, command: str) -> None:
    what = ("dev",) if command == "merge" else ("dev~1", "dev")
    before = head(torn)
    refused = on(command, *what, code=3)
    assert head(torn) == before and refused.stderr.count("\n") == 1 and "'n.t', 'u'" in refused.stderr
    told = {line.split()[0]: line for line in refused.stdout.splitlines()}
    assert {"n.t", "u"} <= set(told) and len(told["u"].split()) > 1
    tried = json.loads(on(command, *what, "--dry-run", "--json", code=3).stdout)
    assert not tried["wasSuccessful"] and [row["key"]["elements"] for row in tried["details"] if "conflict" in row]


def test_keys_are_forced_and_dropped(on: Invoke, torn: VersionStore) -> None:
    on("merge", "dev", "--key", "u=DROP", code=3)
    on("merge", "dev", "--key", "u=DROP", "--key", "n.t=force")
    assert keys(torn) == {"n": None, "n.d": 3, "n.t": 6, "u": 5}


def test_one_behavior_for_all(on: Invoke, torn: VersionStore) -> None:
    on("transplant", "dev~1", "dev", "--behavior", "FORCE", "--author", "ana")
    assert keys(torn) == {"n": None, "n.t": 6, "u": 6} and torn.get_commit(head(torn)).authors[-1] == "ana"
    assert on("revert", "main", "--dry-run", "--expected", head(torn)).stdout.startswith("u\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("merge",), 2),
        (("merge", "dev", "--key", "u"), 2),
        (("merge", "dev", "--key", "u=KEEP"), 2),
        (("merge", "dev", "--behavior", "KEEP"), 2),
        (("merge", "dev", "--expected", "12"), 2),
        (("merge", "dve"), 4),
        (("merge", "dev", "--branch", "mian"), 4),
        (("transplant", "dev~9"), 4),
        (("revert", "main", "--key", "u"), 2),
    ],
)
def test_mistakes_write_nothing(on: Invoke, small: VersionStore, words: tuple[str, ...], code: int) -> None:
    before = head(small)
    assert on(*words, code=code).stdout == "" and head(small) == before
