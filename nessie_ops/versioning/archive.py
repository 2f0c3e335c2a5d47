"""The file of an archive: a tar of checksummed members that can be written on after an interruption.

Members, in order (docs/store.md): `archive.json` (the header), `objects-N`, `moves-N`, `manifest.json` (the SHA-256 of
each).  The two middle kinds are msgpack, compressed with zlib, whose own checksum tells a torn member.  While it is
written, the file's name ends in `.partial`.  Knows no store.
"""

from __future__ import annotations

import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.store import Move

VERSION = 1
HEADER, MANIFEST = "archive.json", "manifest.json"
OBJECTS, MOVES = "objects", "moves"
_BLOCK = 512  # of a tar
T = TypeVar("T")


class SavedReference(msgspec.Struct, frozen=True):
    name: str
    type: str
    head: str | None
    created_at: int
    properties: str


class Header(msgspec.Struct, frozen=True):
    """What was pinned when the export began.  Ids are hexadecimal."""

    archive: int
    format: int
    id: str
    settings: dict[str, str]
    references: list[SavedReference]
    roots: list[str]
    last_seq: int


class Objects(msgspec.Struct, frozen=True):
    """Some objects.  Commits are the columns of their rows in order but for id and used_at."""

    commits: list[tuple[bytes | None, bytes | None, bytes | None, int, int, int, bytes, bytes, bytes]]
    nodes: list[bytes]
    contents: list[bytes]


class Manifest(msgspec.Struct, frozen=True):
    members: dict[str, str]  # SHA-256 by name
    commits: int
    nodes: int
    contents: int
    moves: int


Row = tuple[int, str, str, str, bytes | None, bytes | None, int]


class Counts:
    """What an archive holds, and the checksums of its members so far."""

    def __init__(self) -> None:
        self.members: dict[str, str] = {}
        self.commits = self.nodes = self.contents = self.moves = 0

    def add(self, name: str, raw: bytes) -> None:
        self.members[name] = sha256(raw).hexdigest()
        if name.startswith(OBJECTS):
            objects = unpack_objects(raw)
            self.commits += len(objects.commits)
            self.nodes += len(objects.nodes)
            self.contents += len(objects.contents)
        elif name.startswith(MOVES):
            self.moves += len(unpack_moves(raw))

    def manifest(self) -> Manifest:
        return Manifest(dict(self.members), self.commits, self.nodes, self.contents, self.moves)


def pack(value: Objects | list[Row]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(value), 6)


def unpack_objects(raw: bytes) -> Objects:
    return msgspec.msgpack.decode(zlib.decompress(raw), type=Objects)


def unpack_moves(raw: bytes) -> list[Move]:
    return [Move(*row) for row in msgspec.msgpack.decode(zlib.decompress(raw), type=list[Row])]


DAMAGED = (zlib.error, msgspec.MsgspecError, tarfile.TarError, ValueError, UnicodeDecodeError)


@contextmanager
def explain(path: Path) -> Iterator[None]:
    """BadRequest for what the file system says of the archive."""
    try:
        yield
    except OSError as error:
        raise BadRequest(f"archive: {path}: {error.strerror}.") from error


class Writer:
    """Appends members to `PATH.partial`, which becomes `PATH` when it is finished.  Goes on where one ended before."""

    def __init__(self, path: Path) -> None:
        self._path, self._partial = path, path.with_name(path.name + ".partial")
        self.counts = Counts()
        self.header: Header | None = None
        if path.exists():
            raise BadRequest(f"archive: {path} exists already.")
        with explain(path):
            self._partial.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._partial, "a+b")  # noqa: SIM115 - closed by __exit__
        self._number = 0
        self._go_on()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def _go_on(self) -> None:
        """Keep whole members, up to the last one after which a batch of commits or moves is complete."""
        end, waiting = 0, []
        for name, raw, stop in _read_members(self._file):
            if name == MANIFEST:
                break
            try:
                if name == HEADER:
                    self.header = msgspec.json.decode(raw, type=Header)
                waiting.append((name, raw))
                if not name.startswith(OBJECTS) or unpack_objects(raw).commits:
                    for member in waiting:
                        self.counts.add(*member)
                    end, waiting = stop, []
            except DAMAGED:
                break
        if self.header is None:
            end, self.counts = 0, Counts()
        self._number = len(self.counts.members)
        self._file.truncate(end)
        self._file.seek(end)

    def add_header(self, header: Header) -> None:
        self.header = header
        self._add(HEADER, msgspec.json.encode(header))

    def add(self, kind: str, value: Objects | list[Row]) -> None:
        self._add(f"{kind}-{self._number:08}", pack(value))

    def finish(self) -> Manifest:
        """Add the manifest, and let the archive appear under its name, on the disk."""
        manifest = self.counts.manifest()
        self._add(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        with explain(self._path):
            self._file.write(bytes(2 * _BLOCK))
            self._file.flush()
            os.fsync(self._file.fileno())
            os.replace(self._partial, self._path)
        return manifest

    def _add(self, name: str, raw: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size = len(raw)
        with explain(self._path):
            self._file.write(info.tobuf(tarfile.USTAR_FORMAT) + raw + bytes(-len(raw) % _BLOCK))
            self._file.flush()
        self.counts.add(name, raw)
        self._number += 1


def _read_members(file: io.BufferedRandom) -> Iterator[tuple[str, bytes, int]]:
    """(name, data, where it ends) of the members that are there whole."""
    size = file.seek(0, os.SEEK_END)
    start = 0
    while start + _BLOCK <= size:
        file.seek(start)
        try:
            info = tarfile.TarInfo.frombuf(file.read(_BLOCK), "utf-8", "strict")
        except tarfile.TarError:
            return
        stop = start + _BLOCK + -(-info.size // _BLOCK) * _BLOCK
        if stop > size:
            return
        yield info.name, file.read(info.size), stop
        start = stop


class Reader:
    """Reads a finished archive; BadRequest names what is damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with explain(path):
            file = open(path, "rb")  # noqa: SIM115 - closed by __exit__
        try:
            self._tar = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115
            self.manifest = self._decode(MANIFEST, Manifest)
            self._checked(HEADER)
            self.header = self._decode(HEADER, Header)
        except BaseException as error:
            file.close()
            if isinstance(error, (*DAMAGED, KeyError)):
                raise BadRequest(f"archive: {path} is no archive, or not a whole one: {error}.") from error
            raise
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._tar.close()
        self._file.close()

    def _decode(self, name: str, type: type[T]) -> T:
        return msgspec.json.decode(self._read(name), type=type)

    def _read(self, name: str) -> bytes:
        member: Any = self._tar.extractfile(name)
        raw: bytes = member.read()
        return raw

    def names(self, kind: str) -> list[str]:
        return [name for name in self.manifest.members if name.startswith(f"{kind}-")]

    def read_objects(self, name: str) -> Objects:
        return unpack_objects(self._checked(name))

    def read_moves(self, name: str) -> list[Move]:
        return unpack_moves(self._checked(name))

    def _checked(self, name: str) -> bytes:
        try:
            raw = self._read(name)
        except (*DAMAGED, KeyError) as error:
            raise BadRequest(f"archive: {self._path}: {name} cannot be read: {error}.") from error
        if sha256(raw).hexdigest() != self.manifest.members.get(name):
            raise BadRequest(f"archive: {self._path}: {name} is damaged: its checksum is not that of the manifest.")
        return raw
