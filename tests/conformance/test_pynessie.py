"""pynessie, the Python client of Nessie, drives the server through its API and its command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.helpers import Z, running_server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pynessie uses its own libraries in ways that these deprecate
    import pynessie
    from pynessie.client import NessieClient
    from pynessie.error import NessieConflictException, NessieContentNotFoundException, NessieReferenceNotFoundException
    from pynessie.model import ContentKey, Delete, IcebergTable, Namespace, Put


@pytest.fixture
def endpoint() -> Iterator[str]:
    with running_server() as uri:
        yield f"{uri}/api/v1"


@pytest.fixture
def client(endpoint: str) -> NessieClient:
    return pynessie.init(config_dict={"endpoint": endpoint, "verify": True})


def key(path: str) -> ContentKey:
    return ContentKey.from_path_string(path)


def table(n: int, id: str | None = None) -> IcebergTable:
    return IcebergTable(id, f"file:///m{n}", n, 0, 0, 0)


def add(client: NessieClient, branch: str, path: str, n: int = 1) -> str:
    """Create a table; the new head."""
    put = Put(key(path), table(n))
    return str(client.commit(branch, head(client, branch), f"add {path}", "ann", put).hash_)


def head(client: NessieClient, name: str) -> str:
    return str(client.get_reference(name).hash_)


def names(client: NessieClient, ref: str, **options: str) -> list[str]:
    return [".".join(entry.name.elements) for entry in client.list_keys(ref, **options).entries]


def test_references(client: NessieClient) -> None:
    assert client.get_default_branch() == "main"
    assert client.get_reference("main").hash_ == Z
    first = add(client, "main", "t")
    assert client.create_branch("dev/x", "main", first).hash_ == first
    assert client.create_tag("v1", "main", first).name == "v1"
    assert [ref.name for ref in client.list_references().references] == ["dev/x", "main", "v1"]
    add(client, "dev/x", "u")
    full = {ref.name: ref.metadata for ref in client.list_references(fetch_all=True).references}
    assert (full["dev/x"].num_commits_ahead, full["dev/x"].commit_meta_of_head.message) == (1, "add u")
    client.assign_branch("dev/x", "main")
    assert head(client, "dev/x") == first
    second = add(client, "main", "v")
    client.assign_tag("v1", "main", second)
    assert head(client, "v1") == second
    client.delete_tag("v1", second)
    with pytest.raises(NessieConflictException):
        client.delete_branch("dev/x", second)
    client.delete_branch("dev/x", first)
    with pytest.raises(NessieReferenceNotFoundException):
        client.get_reference("dev/x")


def test_commits_contents_and_log(client: NessieClient) -> None:
    namespace = Put(key("db"), Namespace(None, ["db"]))
    first = client.commit("main", Z, "make db", "ann", namespace, Put(key("db.t"), table(1))).hash_
    made = client.get_content("main", key("db.t"))
    assert (made.metadata_location, made.snapshot_id, len(made.id)) == ("file:///m1", 1, 36)
    dotted = key('db."a.b"')
    second = client.commit("main", first, "change", "bob", Put(key("db.t"), table(2, made.id)), Put(dotted, table(3)))
    assert client.get_content("main", key("db.t")) == table(2, made.id)
    assert client.get_content(f"main@{first}", key("db.t")) == table(1, made.id)
    assert client.get_content("main", dotted).snapshot_id == 3
    assert names(client, "main") == ["db", "db.a.b", "db.t"]
    assert names(client, "main", query_filter="entry.contentType == 'NAMESPACE'") == ["db"]
    assert names(client, "main", hash_on_ref=first) == ["db", "db.t"]
    client.commit("main", second.hash_, "drop", "bob", Delete(key("db.t")))
    with pytest.raises(NessieContentNotFoundException):
        client.get_content("main", key("db.t"))
    log = list(client.get_log("main", max_records=2, fetch_all=True))
    assert [(entry.commit_meta.message, entry.commit_meta.author) for entry in log] == [
        ("drop", "bob"),
        ("change", "bob"),
    ]
    assert [type(operation) for operation in log[0].operations] == [Delete]
    assert log[1].parent_commit_hash == first
    filtered = client.get_log("main", filter="commit.author == 'ann'")
    assert [entry.commit_meta.message for entry in filtered] == ["make db"]
    with pytest.raises(NessieConflictException):
        client.commit("main", first, "late", "ann", Put(key("db.t"), table(4, made.id)))


def test_log_reads_every_page(client: NessieClient) -> None:
    for n in range(7):
        add(client, "main", f"t{n}")
    written = [entry.commit_meta.message for entry in client.get_log("main", maxRecords=3)]
    assert written == [f"add t{n}" for n in reversed(range(7))]


def test_merge_transplant_and_diff(client: NessieClient) -> None:
    base = add(client, "main", "t")
    client.create_branch("dev", "main", base)
    picked = add(client, "dev", "u")
    add(client, "dev", "v")
    diffs = client.get_diff("main", "dev").diffs
    assert [(diff.content_key.elements, diff.from_content, diff.to_content.snapshot_id) for diff in diffs] == [
        (["u"], None, 1),
        (["v"], None, 1),
    ]
    transplanted = client.cherry_pick("main", "dev", base, picked)
    assert transplanted.was_applied
    assert names(client, "main") == ["t", "u"]
    client.create_branch("other", "main", base)
    add(client, "other", "w")
    merged = client.merge("other", "main")
    assert (merged.was_applied, merged.common_ancestor) == (True, base)
    assert merged.resultant_target_hash == head(client, "main")
    assert [(row.key.elements, row.conflict_type) for row in merged.details] == [(["w"], "NONE")]
    assert names(client, "main") == ["t", "u", "w"]
    assert [diff.content_key.elements for diff in client.get_diff("main", "dev", to_hash_on_ref=picked).diffs] == [
        ["w"]
    ]
    add(client, "dev", "x", 1)
    add(client, "main", "x", 2)
    with pytest.raises(NessieConflictException):
        client.merge("dev", "main")


def test_the_command_line(endpoint: str, client: NessieClient, tmp_path: Path) -> None:
    def nessie(*words: str) -> str:
        command = [str(Path(sys.executable).with_name("nessie")), "--endpoint", endpoint, *words]
        environment = {**os.environ, "NESSIE_CLIENTDIR": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    base = add(client, "main", "t")
    nessie("branch", "dev", "main")
    nessie("tag", "v1", "main")
    listed = json.loads(nessie("--json", "branch"))
    assert {row["name"]: row["hash"] for row in listed} == {"dev": base, "main": base}
    add(client, "dev", "u")
    nessie("merge", "-b", "main", "-c", base, "dev")
    assert names(client, "main") == ["t", "u"]
    log = json.loads(nessie("--json", "log", "main"))
    assert [row["message"] for row in log][-1] == "add t"
    assert '"u"' in nessie("--json", "diff", "v1", "main")
    assert "file:///m1" in nessie("content", "view", "-r", "main", "t")
    nessie("branch", "-d", "dev")
    assert [ref.name for ref in client.list_references().references] == ["main", "v1"]
