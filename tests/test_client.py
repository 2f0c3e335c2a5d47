"""The client gives the same values and errors over HTTP as the version store does in process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import (
    BadRequest,
    Forbidden,
    MergeConflict,
    NessieOpsError,
    OutcomeUnknown,
    ReferenceAlreadyExists,
    ReferenceConflict,
    ReferenceNotFound,
    StoreUnavailable,
)
from nessie_ops.model import (
    DETACHED,
    NO_ANCESTOR,
    QUARANTINED,
    Ancestor,
    AsOf,
    Branch,
    CommitHash,
    ConflictType,
    Content,
    ContentKey,
    Delete,
    GarbageCollectorConfig,
    KeyMergeMode,
    Merge,
    MergeBehavior,
    NewCommit,
    Parent,
    Put,
    ReferenceCutoffPolicy,
    ReferenceSpec,
    ReferenceType,
    Transplant,
    Unchanged,
)
from nessie_ops.versioning import VersionStore
from tests.server.helpers import running_server
from tests.versioning.helpers import key, namespace, table

A_TABLE = table(1)
UNKNOWN = CommitHash("ab" * 32)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[VersionStore, NessieClient]]:
    """A version store, and a client of a server over the same database."""
    url = f"sqlite:///{tmp_path}/catalog.db"
    versions = VersionStore.open(url)
    with running_server(url) as uri, NessieClient(uri) as client:
        yield versions, client
    versions.close()


@pytest.fixture
def client(both: tuple[VersionStore, NessieClient]) -> NessieClient:
    return both[1]


def put(path: str, content: Content = A_TABLE) -> Put:
    return Put(key(path), content)


def commit(client: NessieClient, *operations: Put | Delete | Unchanged, branch: str = "main") -> CommitHash:
    head = client.get_reference(branch).hash
    return client.commit(branch, head, NewCommit(message="m"), operations).target_branch.hash


def test_reads_agree_with_the_store(both: tuple[VersionStore, NessieClient]) -> None:
    versions, client = both
    meta = NewCommit(
        message="é\n\x00",
        authors=("a", "b"),
        signed_off_by=("s",),
        author_time=datetime(2021, 4, 7, 14, 42, 25, 123456, UTC),
        properties={"k": ("1", "2"), "ü": ("",)},
    )
    odd = ContentKey.of("n", "a.b/c\\%*é 🦆@")
    operations = [put("n", namespace("n", k="v")), put("n.t"), Put(odd, table(3)), put("z")]
    result = client.commit("main", NO_ANCESTOR, meta, operations)
    assert len(result.added_contents or ()) == 4
    first = result.target_branch.hash
    second = commit(client, Delete(key("z")), put("y"))
    assert client.default_branch == versions.default_branch
    assert client.list_log(second, with_operations=True) == versions.list_log(second, with_operations=True)
    assert client.list_log(second, limit=1) == versions.list_log(second, limit=1)
    assert client.list_log(second, limit_hash=second) == versions.list_log(second, limit_hash=second)
    assert client.get_commit(first) == versions.get_commit(first)
    for kwargs in ({}, {"prefix": key("n")}, {"first": key("n.t")}, {"last": odd}, {"limit": 2}, {"limit": 0}):
        assert client.list_entries(second, **kwargs) == versions.list_entries(second, **kwargs)
        assert client.diff(first, second, **kwargs) == versions.diff(first, second, **kwargs)
    assert client.list_entries(second, with_content=True) == versions.list_entries(second, with_content=True)
    keys = [key("y"), odd, key("nope"), key("n")]
    assert list(client.get_contents(second, keys).items()) == list(versions.get_contents(second, keys).items())
    assert client.list_moves() == versions.list_moves()
    assert client.list_moves(name="main", limit=1, newest_first=True, after_seq=1)[0].after == second


@pytest.mark.parametrize(
    "spec",
    [
        "main",
        "-",
        "main~1",
        "a/b@",
        "a/b^2",
        f"@{NO_ANCESTOR}",
        ReferenceSpec(None, NO_ANCESTOR),
        ReferenceSpec("a/b", None, (Ancestor(1), Parent(1))),
        ReferenceSpec("main", None, (AsOf(datetime.now(UTC)),)),
    ],
)
def test_specifications_mean_the_same(both: tuple[VersionStore, NessieClient], spec: str | ReferenceSpec) -> None:
    versions, client = both
    commit(client, put("t"))
    client.create_reference(ReferenceType.BRANCH, "a/b", commit(client, put("u")), properties={"run": "7"})
    assert client.resolve(spec) == versions.resolve(spec)


def test_references_live_and_die(both: tuple[VersionStore, NessieClient]) -> None:
    versions, client = both
    head = commit(client, put("t"))
    made = client.create_reference(ReferenceType.BRANCH, "run/7", head, properties={"a": "b"})
    assert made == Branch("run/7", head, {"a": "b"}) == versions.get_reference("run/7")
    client.create_reference(ReferenceType.TAG, "v1", NO_ANCESTOR)
    assert client.list_references() == versions.list_references()
    assert client.list_references(prefix="run/") == [made]
    assert client.list_references(limit=1) == versions.list_references(limit=1)
    for after in ((ReferenceType.BRANCH, "main"), (ReferenceType.BRANCH, "a"), (ReferenceType.TAG, "v1")):
        for limit in (1, 10):
            assert client.list_references(after=after, limit=limit) == versions.list_references(
                after=after, limit=limit
            )
    marked = client.update_properties("run/7", {QUARANTINED: "why"}, ["a"], expected=head)
    assert marked.properties == {QUARANTINED: "why"}
    assert client.assign_reference("v1", NO_ANCESTOR, head).hash == head
    assert client.assign_reference("v1", None, NO_ANCESTOR).hash == NO_ANCESTOR
    assert client.delete_reference("run/7", None) == marked
    assert client.delete_reference("v1", NO_ANCESTOR).hash == NO_ANCESTOR
    assert [reference.name for reference in versions.list_references()] == ["main"]


def test_listings_go_beyond_one_page(both: tuple[VersionStore, NessieClient]) -> None:
    versions, client = both
    head = commit(client, *(put(f"t{n:04}") for n in range(2100)))
    assert client.list_entries(head) == versions.list_entries(head)
    assert len(client.list_entries(head, limit=1500)) == 1500
    assert client.diff(NO_ANCESTOR, head) == versions.diff(NO_ANCESTOR, head)
    keys = [key(f"t{n:04}") for n in range(2099, -1, -1)]
    assert list(client.get_contents(head, keys)) == keys
    for _ in range(260):
        head = client.commit("main", head, NewCommit(message=""), [Unchanged(key("x"))]).target_branch.hash
    assert client.list_log(head, limit=1000) == versions.list_log(head, limit=1000)
    assert len(client.list_log(head)) == 250
    for n in range(1100):
        client.update_properties("main", {"n": str(n)})
    for newest_first in (False, True):
        assert client.list_moves(newest_first=newest_first) == versions.list_moves(newest_first=newest_first)
        assert client.list_moves(limit=1050, newest_first=newest_first)[-1].seq == (
            versions.list_moves(limit=1050, newest_first=newest_first)[-1].seq
        )


def test_errors_are_the_stores(both: tuple[VersionStore, NessieClient]) -> None:
    _, client = both
    head = commit(client, put("t"))
    client.create_reference(ReferenceType.BRANCH, "x", head)
    with pytest.raises(ReferenceNotFound, match="'nope' not found"):
        client.get_reference("nope")
    with pytest.raises(ReferenceNotFound):
        client.get_commit(UNKNOWN)
    with pytest.raises(ReferenceAlreadyExists):
        client.create_reference(ReferenceType.TAG, "x", head)
    with pytest.raises(BadRequest, match="Default branch"):
        client.delete_reference("main", head)
    with pytest.raises(BadRequest, match="name"):
        client.create_reference(ReferenceType.BRANCH, "a b", head)
    with pytest.raises(ReferenceConflict) as stale:
        client.assign_reference("x", NO_ANCESTOR, head)
    assert [found.conflict_type for found in stale.value.conflicts] == [ConflictType.UNEXPECTED_HASH]
    with pytest.raises(ReferenceConflict) as conflict:
        client.commit("main", NO_ANCESTOR, NewCommit(message="m"), [put("t"), put("u")])
    (found,) = conflict.value.conflicts
    assert (found.conflict_type, found.key) == (ConflictType.KEY_EXISTS, key("t"))
    assert type(conflict.value) is ReferenceConflict


def test_merges_return_or_raise_their_result(both: tuple[VersionStore, NessieClient]) -> None:
    versions, client = both
    head = commit(client, put("t"))
    client.create_reference(ReferenceType.BRANCH, "f", head)
    id = client.get_contents(head, [key("t")])[key("t")].id
    source = commit(client, put("t", msgspec.structs.replace(table(2), id=id)), put("new"), branch="f")
    dry = Merge(from_ref="f", from_hash=source, meta=NewCommit(message=""), dry_run=True)
    assert client.merge("main", None, dry) == versions.merge("main", head, dry)
    head = commit(client, put("t", msgspec.structs.replace(table(3), id=id)))
    wanted = Merge(from_ref=DETACHED, from_hash=source, meta=NewCommit(message="", committer="me"))
    with pytest.raises(MergeConflict) as here:
        client.merge("main", head, wanted)
    with pytest.raises(MergeConflict) as there:
        versions.merge("main", head, wanted)
    assert here.value.result == there.value.result and here.value.message == there.value.message
    assert here.value.conflicts == there.value.conflicts
    as_result = msgspec.structs.replace(wanted, conflicts_as_result=True)
    assert client.merge("main", head, as_result) == there.value.result
    mode = KeyMergeMode(key=key("t"), merge_behavior=MergeBehavior.FORCE)
    done = client.merge("main", head, msgspec.structs.replace(wanted, key_modes=(mode,)))
    assert done.was_applied and done.resultant_target_hash == client.get_reference("main").hash
    assert client.get_commit(client.get_reference("main").hash).authors == ("me",)
    client.update_properties("f", {QUARANTINED: "nulls"})
    with pytest.raises(Forbidden, match="nulls"):
        client.merge("main", None, msgspec.structs.replace(wanted, from_ref="f"))


def test_transplants_return_or_raise_their_result(both: tuple[VersionStore, NessieClient]) -> None:
    versions, client = both
    head = commit(client, put("t"))
    client.create_reference(ReferenceType.BRANCH, "f", head)
    first = client.commit("f", head, NewCommit(message="one", authors=("ann",)), [put("a")]).target_branch.hash
    second = commit(client, put("b"), branch="f")
    words = NewCommit(message="", authors=("bob",), properties={"k": ("v",)}, committer="me")
    dry = Transplant(from_ref="f", hashes=(first, second), meta=words, dry_run=True)
    assert client.transplant("main", None, dry) == versions.transplant("main", head, dry)
    wanted = msgspec.structs.replace(dry, dry_run=False)
    done = client.transplant("main", head, wanted)
    assert done.was_applied and done.resultant_target_hash == client.get_reference("main").hash
    metas = [entry.commit_meta for entry in client.list_log(client.get_reference("main").hash)]
    assert [(meta.message, meta.authors) for meta in metas[1::-1]] == [("one", ("ann", "bob")), ("m", ("", "bob"))]
    forced = [put("a", msgspec.structs.replace(table(7), id=client.get_contents(first, [key("a")])[key("a")].id))]
    commit(client, *forced)
    with pytest.raises(MergeConflict) as here:
        client.transplant("main", None, wanted)
    with pytest.raises(MergeConflict) as there:
        versions.transplant("main", client.get_reference("main").hash, wanted)
    assert here.value.result == there.value.result and here.value.conflicts == there.value.conflicts


def test_reverts_return_or_raise_their_result(both: tuple[VersionStore, NessieClient]) -> None:
    versions, client = both
    first = commit(client, put("t"))
    id = client.get_contents(first, [key("t")])[key("t")].id
    second = commit(client, put("t", msgspec.structs.replace(table(2), id=id)), put("new"))
    meta = NewCommit(message="", authors=("ann",))
    wanted = [key("t"), key("new")]
    assert client.revert("main", None, second, meta=meta, dry_run=True) == versions.revert(
        "main", second, second, meta=meta, dry_run=True
    )
    assert client.revert_contents("main", None, wanted, first, allow_deletes=True, dry_run=True) == (
        versions.revert_contents("main", second, wanted, first, allow_deletes=True, dry_run=True)
    )
    with pytest.raises(BadRequest, match="'new'"):
        client.revert_contents("main", None, wanted, first)
    assert client.revert("main", None, second, meta=meta).was_applied
    assert client.revert_contents("main", None, wanted, second).was_applied
    assert client.revert_contents("main", None, [key("t")], first, meta=NewCommit(message="back")).was_applied
    log = client.list_log(client.get_reference("main").hash)
    assert log[0].commit_meta.message == "back" and log[2].commit_meta.authors == ("ann",)
    with pytest.raises(MergeConflict) as here:
        client.revert("main", None, second)
    with pytest.raises(MergeConflict) as there:
        versions.revert("main", client.get_reference("main").hash, second)
    assert here.value.result == there.value.result and here.value.message == there.value.message


def test_the_repository_is_configured(both: tuple[VersionStore, NessieClient]) -> None:
    versions, client = both
    first = GarbageCollectorConfig(default_cutoff_policy="P30D", expected_file_count_per_content=7)
    assert client.list_repository_configs() == [] == client.list_repository_configs([])
    assert client.update_repository_config(first) is None
    assert client.list_repository_configs() == versions.list_repository_configs() == [first]
    assert client.list_repository_configs([]) == versions.list_repository_configs([]) == []
    rows = (ReferenceCutoffPolicy("main", "NONE"),)
    assert client.update_repository_config(GarbageCollectorConfig(per_ref_cutoff_policies=rows)) == first
    for catalog in both:
        with pytest.raises(BadRequest, match="defaultCutoffPolicy"):
            catalog.update_repository_config(GarbageCollectorConfig(default_cutoff_policy="x"))


def test_threads_share_a_client(client: NessieClient) -> None:
    def write(n: int) -> CommitHash:
        return commit(client, put(f"t{n}"))

    with ThreadPoolExecutor(8) as pool:
        hashes = set(pool.map(write, range(40)))
    head = client.get_reference("main").hash
    assert {entry.commit_meta.hash for entry in client.list_log(head)} == hashes and len(hashes) == 40


@contextmanager
def answering(reply: bytes | None) -> Iterator[str]:
    """A server that reads one request per connection and answers `reply`; None: hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(reply or b"")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


LOST = [
    None,
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b'HTTP/1.1 500 x\r\nContent-Length: 58\r\n\r\n{"status":500,"reason":"","message":"","errorCode":"UNKNOWN"',
    b'HTTP/1.1 500 x\r\nContent-Length: 61\r\n\r\n{"status":500,"reason":"","message":"m","errorCode":"UNKNOWN"}',
]


@pytest.mark.parametrize("reply", LOST)
def test_a_write_whose_answer_is_lost_has_an_unknown_outcome(reply: bytes | None) -> None:
    with answering(reply) as uri, NessieClient(uri) as client:
        with pytest.raises(OutcomeUnknown, match="look before repeating"):
            client.commit("main", NO_ANCESTOR, NewCommit(message="m"), [put("t")])
        with pytest.raises(NessieOpsError) as read:
            client.get_reference("main")
        assert not isinstance(read.value, OutcomeUnknown)


def test_a_write_that_was_refused_or_never_sent_may_be_repeated() -> None:
    body = b'{"status":503,"reason":"","message":"busy","errorCode":"SERVICE_UNAVAILABLE"}'
    reply = b"HTTP/1.1 503 x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with answering(reply) as uri, NessieClient(uri) as client, pytest.raises(StoreUnavailable, match="busy"):
        client.delete_reference("x", NO_ANCESTOR)
    with NessieClient(uri) as client, pytest.raises(StoreUnavailable, match="Is the server running"):
        client.delete_reference("x", NO_ANCESTOR)


def test_a_hanging_server_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uri = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with NessieClient(uri, read_timeout_s=0.05) as client:
            with pytest.raises(OutcomeUnknown):
                client.update_properties("main", {})
            with pytest.raises(StoreUnavailable):
                client.get_reference("main")


def test_a_foreign_server_is_said_to_be_one() -> None:
    reply = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    with answering(reply) as uri, NessieClient(uri) as client, pytest.raises(BadRequest, match="HTTP status 404"):
        client.get_reference("main")


@pytest.mark.parametrize("uri", ["", "127.0.0.1:1", "ftp://x", "http://", "/api/v2", "http://[::1"])
def test_a_wrong_uri_is_named(uri: str) -> None:
    with pytest.raises(BadRequest, match="uri"):
        NessieClient(uri)


def test_the_api_path_may_be_given(client: NessieClient) -> None:
    with NessieClient(f"{client.base_uri}/api/v2/") as other:
        assert other.base_uri == client.base_uri and other.default_branch == "main"
