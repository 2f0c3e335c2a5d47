"""Bytes of leaf values, commits and contents: what is hashed, and so may never change (docs/format.md).

Pure functions.  Canonical form: msgpack arrays of bytes and integers, JSON with sorted keys for people's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b, sha256
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    NO_ANCESTOR,
    CommitHash,
    CommitMeta,
    Content,
    ContentId,
    ContentType,
    decode_content,
    encode_content,
)

COMMIT_DOMAIN = b"nessie_ops commit 1\n"  # keeps a commit's hash from ever being that of anything else
DIGEST_SIZE = 20
MAX_CONTENT_BYTES = 4 << 20  # of one content, and of what is said of one commit: what every database takes in a row
MAX_WORDS_BYTES = 1 << 20

_TYPES = {
    ContentType.ICEBERG_TABLE: 1,
    ContentType.ICEBERG_VIEW: 2,
    ContentType.NAMESPACE: 3,
    ContentType.UDF: 4,
    ContentType.DELTA_LAKE_TABLE: 5,
}
_TYPE_OF = {code: type for type, code in _TYPES.items()}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Leaf(NamedTuple):
    """The value of a key in the index: enough to find conflicts without reading the content."""

    type: ContentType
    content_id: ContentId
    digest: bytes

    def encode(self) -> bytes:
        return bytes([_TYPES[self.type]]) + UUID(self.content_id).bytes + self.digest

    @staticmethod
    def decode(raw: bytes) -> Leaf:
        return Leaf(_TYPE_OF[raw[0]], content_id_of(raw), raw[17:])


def content_id_of(leaf: bytes) -> ContentId:
    """The content id of an encoded leaf."""
    digits = leaf.hex()
    return ContentId("-".join((digits[2:10], digits[10:14], digits[14:18], digits[18:22], digits[22:34])))


def type_of(leaf: bytes) -> ContentType:
    """The content type of an encoded leaf."""
    return _TYPE_OF[leaf[0]]


def is_same_content(a: bytes, b: bytes) -> bool:
    """Whether two encoded leaves are of one content, with one value or two."""
    return a[:17] == b[:17]


def leaf_of(content: Content) -> tuple[bytes, bytes]:
    """(leaf value, stored bytes) of a content that has its id; BadRequest when it could not be read back."""
    try:
        raw = encode_content(content)
        decode_content(raw)  # structs check their fields when decoded only
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise BadRequest(f"content: {error}") from None
    if len(raw) > MAX_CONTENT_BYTES:
        raise BadRequest(f"content: has {len(raw)} bytes as JSON; at most {MAX_CONTENT_BYTES} are stored.")
    leaf = Leaf(content.type, ContentId(str(content.id)), blake2b(raw, digest_size=DIGEST_SIZE).digest())
    return leaf.encode(), raw


def digest_of(leaf: bytes) -> bytes:
    """The key of the content row of an encoded leaf value."""
    return leaf[17:]


Change = tuple[bytes, bytes | None]
"""(key bytes, encoded leaf), or (key bytes, None) for a deletion."""


class Words(msgspec.Struct, frozen=True, array_like=True):
    """What people say of a commit.  Times: microseconds since 1970, UTC."""

    committer: str
    authors: tuple[str, ...]
    signed_off_by: tuple[str, ...]
    message: str
    author_time: int
    properties: dict[str, tuple[str, ...]]


class Commit(msgspec.Struct, frozen=True):
    """A commit as stored, with packed words and changes."""

    id: bytes
    parent: bytes | None
    merge_parent: bytes | None
    jump: bytes | None
    depth: int
    generation: int
    time: int
    root: bytes
    meta: bytes
    operations: bytes

    @property
    def hash(self) -> CommitHash:
        return CommitHash(self.id.hex())

    @property
    def parent_hash(self) -> CommitHash:
        return to_hash(self.parent)


_words = msgspec.json.Decoder(Words)
_words_encoder = msgspec.json.Encoder(order="deterministic")
_changes = msgspec.msgpack.Decoder(list[Change])


def encode_words(words: Words) -> bytes:
    """BadRequest when there are too many."""
    raw = _words_encoder.encode(words)
    if len(raw) > MAX_WORDS_BYTES:
        raise BadRequest(
            f"commitMeta: message, authors, sign-offs and properties have {len(raw)} bytes as JSON; at most "
            f"{MAX_WORDS_BYTES} are stored."
        )
    return raw


def encode_changes(changes: Sequence[Change]) -> bytes:
    """Deletions, then puts, each by key."""
    return msgspec.msgpack.encode(sorted(changes, key=lambda change: (change[1] is not None, change[0])))


def decode_changes(raw: bytes) -> list[Change]:
    return _changes.decode(raw)


def commit_id(
    parent: bytes | None, merge_parent: bytes | None, time: int, root: bytes, meta: bytes, operations: bytes
) -> bytes:
    """SHA-256 of the canonical bytes of a commit."""
    body = msgspec.msgpack.encode([parent, merge_parent, time, root, meta, operations])
    return sha256(COMMIT_DOMAIN + body).digest()


def decode_commit(row: Sequence[Any]) -> Commit:
    """A commit from its database row, whose columns have the order of the fields."""
    return Commit(*row[:10])


def meta_of(commit: Commit) -> CommitMeta:
    """All that is known about a commit but its operations."""
    words = _words.decode(commit.meta)
    parents = [commit.parent_hash] + ([to_hash(commit.merge_parent)] if commit.merge_parent else [])
    return CommitMeta(
        hash=commit.hash,
        committer=words.committer,
        authors=words.authors,
        all_signed_off_by=words.signed_off_by,
        message=words.message,
        commit_time=from_micros(commit.time),
        author_time=from_micros(words.author_time),
        all_properties=words.properties,
        parent_commit_hashes=tuple(parents),
    )


def to_micros(time: datetime) -> int:
    """Microseconds since 1970; exact, unlike `timestamp()`."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def to_hash(id: bytes | None) -> CommitHash:
    """Hex of a commit id; None is "no commit"."""
    return CommitHash(id.hex()) if id else NO_ANCESTOR


def to_id(commit: CommitHash) -> bytes | None:
    """Commit id as stored; None for "no commit"."""
    return None if commit == NO_ANCESTOR else bytes.fromhex(commit)
