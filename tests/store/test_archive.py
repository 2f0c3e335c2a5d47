"""`store export` and `import`: the same catalog in another database, also after interruptions; damage is named."""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from nessie_ops.cli import build_app
from nessie_ops.errors import BadRequest, ReferenceNotFound, StoreFormatError
from nessie_ops.model import ReferenceType
from nessie_ops.store import Cache, Store
from nessie_ops.versioning import VersionStore, archive, exporting, importing, reach
from nessie_ops.versioning.archive import MANIFEST, Manifest, Objects
from nessie_ops.versioning.exporting import export
from nessie_ops.versioning.importing import import_archive
from tests.store.helpers import execute, faults_of, fill, quiet
from tests.versioning.helpers import commit, head, put, table, update

DAY = timedelta(days=1)
Progress = Callable[[str, int], None]


class Interrupted(Exception):
    """A kill, as far as files and transactions can tell."""


def write(store: Store, path: Path, progress: Progress = quiet, grace: timedelta = DAY) -> Manifest:
    return export(store, path, grace=grace, now=datetime.now(UTC), new_id=lambda: "some id", progress=progress)


def state(store: Store) -> Any:
    """All that must be the same on both sides."""
    versions = VersionStore(store)
    references = versions.list_references()
    logs = [versions.list_log(reference.hash, with_operations=True) for reference in references]
    entries = [versions.list_entries(reference.hash, with_content=True) for reference in references]
    settings = execute(store, "SELECT name, value FROM setting WHERE name <> 'format' ORDER BY name")
    rows = execute(store, "SELECT name, type, created_at, properties FROM reference ORDER BY name")
    return references, logs, entries, versions.list_moves(), settings, rows, versions.get_info()


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of many members from little data."""
    monkeypatch.setattr(reach, "AT_ONCE", 2)
    monkeypatch.setattr(exporting, "MEMBER_BYTES", 2_000)


@pytest.fixture
def target(url: str, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each database."""
    opened = Store.open(url)
    yield opened
    opened.close()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Store]:
    """A store with some history, in SQLite."""
    opened = Store.open(f"sqlite:///{tmp_path}/source.db")
    fill(VersionStore(opened))
    with opened.write() as tx:
        tx.put_setting("config/X", "{}")
    yield opened
    opened.close()


def test_the_same_catalog_in_another_database(source: Store, target: Store, tmp_path: Path) -> None:
    manifest = write(source, tmp_path / "a.tar")
    assert import_archive(target, tmp_path / "a.tar", progress=quiet) == manifest
    assert state(target) == state(source) and faults_of(target) == []
    assert manifest.commits == 13 and manifest.moves == 16
    for store in (source, target):
        commit(VersionStore(store, clock=lambda: datetime(2100, 1, 1, tzinfo=UTC)), put("z", table(1, None)))
    assert VersionStore(target).list_moves()[-1].seq == 17
    assert list(tmp_path.glob("*.partial")) == []


def test_back_again(store: Store, versions: VersionStore, tmp_path: Path) -> None:
    """Out of each database, too."""
    fill(versions)
    write(store, tmp_path / "a.tar")
    target = Store.open(f"sqlite:///{tmp_path}/target.db")
    import_archive(target, tmp_path / "a.tar", progress=quiet)
    assert state(target) == state(store) and faults_of(target) == []
    target.close()


def test_an_empty_catalog(tmp_path: Path, target: Store) -> None:
    empty = Store.open("sqlite://")
    VersionStore(empty, default_branch="trunk")
    VersionStore(target)
    write(empty, tmp_path / "a.tar")
    import_archive(target, tmp_path / "a.tar", progress=quiet)
    assert state(target) == state(empty) and VersionStore(target).default_branch == "trunk"


def test_the_state_is_that_of_the_start(source: Store, tmp_path: Path, small_parts: None) -> None:
    versions, before = VersionStore(source), state(source)

    def meanwhile(what: str, count: int) -> None:
        if count == 4:
            update(versions, "n.t1", 7)
            versions.delete_reference("side", None)

    write(source, tmp_path / "a.tar", meanwhile)
    target = Store.open(f"sqlite:///{tmp_path}/target.db")
    import_archive(target, tmp_path / "a.tar", progress=quiet)
    assert state(target) == before and faults_of(target) == []
    target.close()


def test_what_was_needed_lately_can_still_be_restored(source: Store, tmp_path: Path) -> None:
    versions = VersionStore(source)
    versions.create_reference(ReferenceType.BRANCH, "gone", head(versions))
    lost = update(versions, "x", 1, "gone")
    versions.delete_reference("gone", None)
    for grace, found in ((DAY, True), (timedelta(0), False)):
        write(source, tmp_path / f"{found}.tar", grace=grace)
        target = Store.open("sqlite://")
        import_archive(target, tmp_path / f"{found}.tar", progress=quiet)
        other = VersionStore(target)
        if found:
            other.create_reference(ReferenceType.BRANCH, "again", lost)
        else:
            with pytest.raises(ReferenceNotFound):
                other.create_reference(ReferenceType.BRANCH, "again", lost)


def interrupt_at(moment: int) -> Progress:
    left = [moment]

    def progress(what: str, count: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted

    return progress


@pytest.mark.parametrize("tear", [0, 1, 300, 700, 5_000])
def test_an_interrupted_export_goes_on(source: Store, tmp_path: Path, small_parts: None, tear: int) -> None:
    """At each moment, and with the end of the file not yet on the disk."""
    whole = write(source, tmp_path / "whole.tar")
    partial, interrupts = tmp_path / "a.tar.partial", 0
    while True:
        try:
            manifest = write(source, tmp_path / "a.tar", interrupt_at(2))
            break
        except Interrupted:
            interrupts += 1
            if interrupts < 5:
                with partial.open("r+b") as file:
                    file.truncate(max(0, partial.stat().st_size - tear))
    assert interrupts >= 4 and manifest.commits == whole.commits and manifest.moves == whole.moves
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "whole.tar").read_bytes()


def test_an_interrupted_import_goes_on(source: Store, target: Store, tmp_path: Path, small_parts: None) -> None:
    write(source, tmp_path / "a.tar")
    write(source, tmp_path / "b.tar", grace=timedelta(0))
    interrupts = 0
    while True:
        try:
            import_archive(target, tmp_path / "a.tar", progress=interrupt_at(3))
            break
        except Interrupted:
            interrupts += 1
            with pytest.raises(StoreFormatError, match="import"):
                VersionStore(target)
            if interrupts > 8:  # the check comes after all parts, and reports progress each time
                import_archive(target, tmp_path / "a.tar", progress=quiet)
                break
    assert state(target) == state(source) and faults_of(target) == []


def test_an_import_needs_an_empty_store_or_its_own_beginning(source: Store, tmp_path: Path, small_parts: None) -> None:
    write(source, tmp_path / "a.tar")
    with pytest.raises(BadRequest, match="needs an empty store"):
        import_archive(source, tmp_path / "a.tar", progress=quiet)
    other = tmp_path / "b.tar"
    export(source, other, grace=DAY, now=datetime.now(UTC), new_id=lambda: "another", progress=quiet)
    target = Store.open("sqlite://")
    with pytest.raises(Interrupted):
        import_archive(target, tmp_path / "a.tar", progress=interrupt_at(2))
    with pytest.raises(BadRequest, match="part of another archive"):
        import_archive(target, other, progress=quiet)
    with pytest.raises(BadRequest, match="exists already"):
        write(source, other)


def rebuild(path: Path, change: Callable[[str, bytes], bytes], *, mend: bool) -> None:
    """Write the archive anew with changed members; with `mend`, their checksums agree."""
    with tarfile.open(path) as tar:
        members = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
    changed = {name: change(name, raw) for name, raw in members.items() if name != MANIFEST}
    manifest = msgspec.json.decode(members[MANIFEST], type=Manifest)
    if mend:
        counts = archive.Counts()
        for name, raw in changed.items():
            counts.add(name, raw)
        manifest = msgspec.structs.replace(manifest, members=counts.members)
    with tarfile.open(path, "w") as tar:
        for name, raw in {**changed, MANIFEST: msgspec.json.encode(manifest)}.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))


def in_objects(change: Callable[[Objects], Objects]) -> Callable[[str, bytes], bytes]:
    def apply(name: str, raw: bytes) -> bytes:
        return archive.pack(change(archive.unpack_objects(raw))) if name.startswith("objects") else raw

    return apply


def test_damage_is_found(source: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write(source, path)
    good = path.read_bytes()
    replace = msgspec.structs.replace
    changes: list[tuple[bool, Callable[[str, bytes], bytes], str]] = [
        (False, in_objects(lambda o: replace(o, contents=o.contents[1:])), "objects-00000001 is damaged"),
        (True, in_objects(lambda o: replace(o, contents=o.contents[1:])), "not sound.*its content [0-9a-f]* does not"),
        (True, in_objects(lambda o: replace(o, nodes=o.nodes[1:])), "not sound.*does not exist"),
        (True, in_objects(lambda o: replace(o, commits=o.commits[:-1])), "not sound.*its parent .* does not exist"),
        (True, in_objects(lambda o: replace(o, nodes=[b"\0\0\1a" + bytes(37)])), "not sound"),
        (True, in_objects(lambda o: replace(o, nodes=[b"\0\0\2a" + bytes(36)])), "a node is not in the form"),
        (True, in_objects(lambda o: replace(o, contents=[b"{}"])), "objects-00000001: "),
    ]
    for mend, change, message in changes:
        path.write_bytes(good)
        rebuild(path, change, mend=mend)
        target = Store.open("sqlite://")
        with pytest.raises((BadRequest, StoreFormatError), match=message):
            import_archive(target, path, progress=quiet)
        assert execute(target, "SELECT * FROM reference") == []


def test_what_is_no_archive(tmp_path: Path, source: Store) -> None:
    path = tmp_path / "a.tar"
    store = Store.open("sqlite://")
    with pytest.raises(BadRequest, match="No such file"):
        import_archive(store, path, progress=quiet)
    write(source, path)
    good = path.read_bytes()
    for raw in (b"", b"no tar" * 500, good[:5000], zlib.compress(good)):
        path.write_bytes(raw)
        with pytest.raises(BadRequest, match="is no archive, or not a whole one"):
            import_archive(store, path, progress=quiet)
    with pytest.raises(BadRequest, match=r"archive: .*: File exists"):
        write(source, path / "below")


def test_a_commit_that_is_purged_meanwhile(tmp_path: Path, source: Store, small_parts: None) -> None:
    with pytest.raises(Interrupted):
        write(source, tmp_path / "a.tar", interrupt_at(2))
    versions = VersionStore(source)
    for name in ("side", "v1"):
        versions.delete_reference(name, None)
    versions.assign_reference("main", None, versions.resolve("main~100").hash)
    later = VersionStore(source, clock=lambda: datetime.now(UTC) + DAY)
    assert later.purge(grace=timedelta(0)).live_commits == 0
    source.cache = Cache(0)
    with pytest.raises(ReferenceNotFound, match=r"purged while the archive was written; remove .*a\.tar\.partial"):
        write(source, tmp_path / "a.tar")


def test_the_commands(tmp_path: Path, source: Store) -> None:
    app, path, new = build_app(lambda **options: None), str(tmp_path / "a.tar"), f"sqlite:///{tmp_path}/new.db"

    def invoke(*words: str) -> Any:
        return CliRunner().invoke(app, ["store", *words])

    assert invoke("export", path, "--store", f"sqlite:///{tmp_path}/source.db").stdout.startswith("exported 13 commits")
    assert json.loads(invoke("import", path, "--store", new, "--json").stdout)["commits"] == 13
    assert invoke("check", "--store", new).stdout == "no fault found\n"
    assert isinstance(invoke("import", path, "--store", new).exception, BadRequest)
    assert importing.IMPORT == "import"
