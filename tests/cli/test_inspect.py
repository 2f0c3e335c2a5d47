"""`nessie-ops log`, `show`, `contents` and `diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.versioning import VersionStore
from tests.cli.conftest import Invoke
from tests.versioning.helpers import content_id, head


def test_log_says_what_each_commit_did_and_where_to_end(on: Invoke, small: VersionStore) -> None:
    lines = on("log", "dev", "--operations", "--back-to", "main").stdout.splitlines()
    assert [line.split()[:1] for line in lines[::2]] == [[head(small, "dev")[:16]], [head(small)[:16]]]
    assert [line.split() for line in lines[1::2]] == [["put", "n.d", "ICEBERG_TABLE"], ["put", "u", "ICEBERG_TABLE"]]
    [entry] = json.loads(on("log", "dev", "-n", "1", "--operations", "--json").stdout)
    assert entry["operations"][0]["key"] == {"elements": ["n", "d"]} and entry["parentCommitHash"] == head(small)
    [found] = on("log", "--filter", f"commit.hash == '{head(small, 'v1')}'").stdout.splitlines()
    assert found.startswith(head(small, "v1")[:16])
    on("log", "--filter", "commit.", code=2)
    on("log", "mian", code=4)


def test_contents_by_type_prefix_and_filter(on: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nessie_ops.cli.inspect._PAGE", 2)

    def keys(*words: str) -> list[str]:
        return [line.split()[0] for line in on("contents", *words).stdout.splitlines()]

    assert keys("dev") == ["n", "n.d", "n.t", "u"] and keys() == ["n", "n.t", "u"]
    assert keys("dev", "--type", "ICEBERG_TABLE") == ["n.d", "n.t", "u"]
    assert keys("dev", "--type", "NAMESPACE", "-t", "ICEBERG_VIEW") == ["n"]
    assert keys("dev", "--prefix", "n", "-t", "ICEBERG_TABLE", "-n", "1") == ["n.d"]
    assert keys("dev", "--filter", "entry.name.startsWith('d')") == ["n.d"]
    rows = json.loads(on("contents", "v1", "--json").stdout)
    assert [(row["type"], row["content"]["type"]) for row in rows] == [("NAMESPACE",) * 2, ("ICEBERG_TABLE",) * 2]
    on("contents", "--type", "TABLE", code=2)
    on("contents", "--prefix", "a..b", code=2)


def test_diff_below_a_key(on: Invoke) -> None:
    assert on("diff", "v1", "dev").stdout.splitlines() == ["+  n.d  ICEBERG_TABLE", "+  u    ICEBERG_TABLE"]
    assert on("diff", "v1", "dev", "--prefix", "n").stdout == "+  n.d  ICEBERG_TABLE\n"
    assert on("diff", "v1", "dev", "--filter", "key.key == 'u'").stdout == "+  u  ICEBERG_TABLE\n"


def test_show_says_what_is_known_without_metadata(on: Invoke, small: VersionStore) -> None:
    done = on("show", "n.t", "--ref", "v1")
    found = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert (found["key"], found["reference"], found["commit"]) == ("n.t", "v1", head(small, "v1"))
    assert (found["type"], found["id"]) == ("ICEBERG_TABLE", content_id(small, "n.t"))
    assert "metadata cannot be read" in done.stderr and done.stderr.count("\n") == 1
    value = json.loads(on("show", "n", "--json").stdout)
    assert value["content"]["elements"] == ["n"] and value["table"] is None and value["commit"] == head(small)
    missing = on("show", "n.x", code=4)
    assert "Did you mean 'n.t'?" in str(missing.exception)
    on("show", "n.d", code=4)


def test_show_tells_of_a_table(tmp_path: Path, on: Invoke, small: VersionStore) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StringType

    fields = (NestedField(1, "a", LongType(), required=True), NestedField(2, "b", StringType()))
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/wh"}
    with NessieOpsCatalog("here", **where) as catalog:
        catalog.create_table("n.real", Schema(*fields), properties={"owner": "ana"})
    found = on("show", "n.real", "--json", "--warehouse", where["warehouse"])
    table = json.loads(found.stdout)["table"]
    assert [(column["name"], column["type"], column["required"]) for column in table["columns"]] == [
        ("a", "long", True),
        ("b", "string", False),
    ]
    assert table["snapshots"] == 0 and table["properties"]["owner"] == "ana" and table["location"].startswith("file:")
    text = on("show", "n.real", "--warehouse", where["warehouse"]).stdout
    assert "column             a long required\n" in text and "owner=ana" in text
