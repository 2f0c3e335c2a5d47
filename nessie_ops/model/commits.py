"""Commits: operations on content keys, and who made them, when and why.

The specification's "Unmodified" operation is called Unchanged here, as in the API.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from nessie_ops.model.content import Content, ContentType
from nessie_ops.model.ids import CommitHash, ContentId
from nessie_ops.model.keys import ContentKey
from nessie_ops.model.references import Branch


class Put(msgspec.Struct, frozen=True, gc=False, tag="PUT", tag_field="type"):
    """Create, update or (with a Delete of the old key in the same commit) rename a content."""

    key: ContentKey
    content: Content


class Delete(msgspec.Struct, frozen=True, gc=False, tag="DELETE", tag_field="type"):
    key: ContentKey


class Unchanged(msgspec.Struct, frozen=True, gc=False, tag="UNCHANGED", tag_field="type"):
    """Commit only if the key still has the value that it has at the expected hash.  Never stored."""

    key: ContentKey


class UnchangedRange(msgspec.Struct, frozen=True, gc=False, tag="UNCHANGED_RANGE", tag_field="type", rename="camel"):
    """Commit only if a listing holds the same keys as at the expected hash, and, `with_content`, the same values.

    It is that of `prefix` and all below it, cut to `first` ... `last` inclusive.  Never stored.
    """

    prefix: ContentKey | None = None
    first: ContentKey | None = None
    last: ContentKey | None = None
    with_content: bool = False


Operation = Put | Delete | Unchanged | UnchangedRange


class NewCommit(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a caller may say of a commit; the rest of CommitMeta is the version store's to fill in."""

    message: str
    committer: str = ""
    authors: tuple[str, ...] = ()  # empty: the committer
    signed_off_by: tuple[str, ...] = ()
    author_time: datetime | None = None  # None: the commit time
    properties: dict[str, tuple[str, ...]] = {}


class CommitMeta(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """All that is recorded of a commit besides its operations.  Times are UTC; names are sorted as given."""

    hash: CommitHash
    committer: str
    authors: tuple[str, ...]
    all_signed_off_by: tuple[str, ...]
    message: str
    commit_time: datetime  # never earlier than the parent's
    author_time: datetime
    all_properties: dict[str, tuple[str, ...]] = {}
    parent_commit_hashes: tuple[CommitHash, ...]  # direct parent first, then merge parents


class Consistency(StrEnum):
    """Whether a commit can be read with all that it brought; worse ones last."""

    NOT_CHECKED = "NOT_CHECKED"
    COMMIT_CONSISTENT = "COMMIT_CONSISTENT"
    COMMIT_CONTENT_INCONSISTENT = "COMMIT_CONTENT_INCONSISTENT"
    COMMIT_INCONSISTENT = "COMMIT_INCONSISTENT"


class CheckedCommit(msgspec.Struct, frozen=True, rename={"hash": "commitHash", "consistency": "commitConsistency"}):
    """`meta` is None for the empty state, and for a commit that is gone."""

    hash: CommitHash
    consistency: Consistency
    meta: CommitMeta | None


class PutLog(msgspec.Struct, frozen=True, gc=False, tag="PUT", tag_field="type"):
    """A put as the log shows it: the whole content with its id."""

    key: ContentKey
    content: Content
    documentation: None = None


class LogEntry(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A commit in a log; `operations` is None unless asked for: deletes then puts, each sorted by key."""

    commit_meta: CommitMeta
    parent_commit_hash: CommitHash
    operations: tuple[PutLog | Delete, ...] | None = None


class AddedContent(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    key: ContentKey
    content_id: ContentId


class CommitResult(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a commit left its branch; `added_contents` has the ids given to new contents, None when there are none."""

    target_branch: Branch
    added_contents: tuple[AddedContent, ...] | None = None


class Entry(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A row of a listing; `content` only when asked for."""

    type: ContentType
    name: ContentKey
    content_id: ContentId
    content: Content | None = None


class DiffEntry(msgspec.Struct, frozen=True, gc=False, rename={"before": "from", "after": "to"}):
    """A key whose value differs; None where it does not exist."""

    key: ContentKey
    before: Content | None
    after: Content | None
