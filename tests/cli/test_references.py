"""`nessie-ops branch` and `tag`: list, create, delete, assign."""

from __future__ import annotations

import json

import pytest

from nessie_ops.model import NO_ANCESTOR, NewCatalogTransaction, ReferenceType
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore
from tests.cli.conftest import Invoke
from tests.versioning.helpers import head


def test_a_tag_through_its_life(on: Invoke, small: VersionStore) -> None:
    at, first = head(small), head(small, "v1")
    assert on("tag", "create", "v2", "--dry-run").stdout == f"would create v2 at {at}\n"
    assert on("tag", "list").stdout == f"v1  {first[:16]}\n"
    assert on("tag", "create", "v2").stdout == f"created v2 at {at}\n"
    assert json.loads(on("tag", "list", "--json").stdout)[1] == {"type": "TAG", "name": "v2", "hash": at}
    assert on("tag", "list", "--prefix", "v2").stdout == f"v2  {at[:16]}\n"
    told = f"would assign v2 to {first}; it is at {at}\n"
    assert on("tag", "assign", "v2", "--to", "v1", "--dry-run").stdout == told
    assert head(small, "v2") == at
    done = on("tag", "assign", "v2", "--to", "v1", "--expected", at, "--json")
    assert json.loads(done.stdout) == {"type": "TAG", "name": "v2", "hash": first}
    assert on("tag", "delete", "v2", "--dry-run").stdout == f"would delete v2, which is at {first}\n"
    assert on("tag", "delete", "v2").stdout == f"deleted v2, which was at {first}\n"
    assert [tag.name for tag in small.list_references() if tag.name[0] == "v"] == ["v1"]


def test_a_branch_is_assigned(on: Invoke, small: VersionStore) -> None:
    before, at = head(small, "dev"), head(small)
    assert on("branch", "assign", "dev", "--to", "main").stdout == f"assigned dev to {at}; it was at {before}\n"
    on("branch", "assign", "dev", "--to", f"@{before}", "--expected", NO_ANCESTOR, code=3)
    assert head(small, "dev") == at


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("branch", "assign", "v1", "--to", "main"), 2, "`nessie-ops tag`"),
        (("tag", "delete", "dev"), 2, "`nessie-ops branch`"),
        (("tag", "assign", "v1"), 2, ""),
        (("branch", "delete", "main", "--dry-run"), 2, "default branch"),
        (("branch", "delete", "dev", "--expected", "xyz"), 2, "expected"),
        (("branch", "create", "dev"), 3, "already exists"),
        (("tag", "create", "dev", "--dry-run"), 3, "already exists"),
        (("branch", "create", "a", "--from", "dve"), 4, "Did you mean 'dev'?"),
        (("branch", "delete", "dve"), 4, "Did you mean 'dev'?"),
    ],
)
def test_mistakes_say_what_to_do(on: Invoke, words: tuple[str, ...], code: int, told: str) -> None:
    result = on(*words, code=code)
    assert told in str(result.exception) + result.stderr and result.stdout == ""


def test_listings_are_whole_and_filtered(on: Invoke, small: VersionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nessie_ops.cli.references._PAGE", 2)
    for n in range(3):
        small.create_reference(ReferenceType.TAG, f"t{n}", head(small))
        small.create_reference(ReferenceType.BRANCH, f"b{n}", head(small))
    hidden = Transactions(small).begin_transaction(NewCatalogTransaction()).branch

    def names(*words: str) -> list[str]:
        return [line.split()[0] for line in on(*words).stdout.splitlines()]

    assert names("branch", "list") == ["b0", "b1", "b2", "dev", "main"]
    assert names("branch", "list", "--hidden") == ["b0", "b1", "b2", "dev", "main", hidden]
    assert names("tag", "list") == ["t0", "t1", "t2", "v1"]
    assert names("tag", "list", "--filter", "ref.name.endsWith('1')") == ["t1", "v1"]
    assert names("branch", "list", "--filter", "ref.name == 'dev'") == ["dev"]
    on("branch", "list", "--filter", "ref.nme == 'dev'", code=2)
