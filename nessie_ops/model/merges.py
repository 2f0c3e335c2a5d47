"""Merges, transplants and reverts: per-key behaviour, conflicts as data, and results."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from nessie_ops.model.commits import NewCommit
from nessie_ops.model.content import Content
from nessie_ops.model.ids import CommitHash
from nessie_ops.model.keys import ContentKey


class ConflictType(StrEnum):
    UNKNOWN = "UNKNOWN"
    KEY_EXISTS = "KEY_EXISTS"
    KEY_DOES_NOT_EXIST = "KEY_DOES_NOT_EXIST"
    PAYLOAD_DIFFERS = "PAYLOAD_DIFFERS"
    CONTENT_ID_DIFFERS = "CONTENT_ID_DIFFERS"
    VALUE_DIFFERS = "VALUE_DIFFERS"
    NAMESPACE_ABSENT = "NAMESPACE_ABSENT"
    NOT_A_NAMESPACE = "NOT_A_NAMESPACE"
    NAMESPACE_NOT_EMPTY = "NAMESPACE_NOT_EMPTY"
    UNEXPECTED_HASH = "UNEXPECTED_HASH"
    KEY_CONFLICT = "KEY_CONFLICT"
    DOCUMENTATION_DIFFERS = "DOCUMENTATION_DIFFERS"


class Conflict(msgspec.Struct, frozen=True, rename="camel"):
    """Why one key (or, without key, the reference) stops a write.  `message` is lower case, without full stop."""

    conflict_type: ConflictType
    key: ContentKey | None
    message: str


class MergeBehavior(StrEnum):
    NORMAL = "NORMAL"  # report conflicts
    FORCE = "FORCE"  # take the source
    DROP = "DROP"  # leave the key out


class KeyMergeMode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How one key is merged.  Resolved content replaces the source's and needs the expected target content."""

    key: ContentKey
    merge_behavior: MergeBehavior = MergeBehavior.NORMAL
    expected_target_content: Content | None = None
    resolved_content: Content | None = None


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """A request to merge what `from_ref`'s commit `from_hash` holds into a branch."""

    from_ref: str  # "DETACHED" for a commit alone
    from_hash: CommitHash
    meta: NewCommit  # an empty message gives the default one
    default_behavior: MergeBehavior = MergeBehavior.NORMAL
    key_modes: tuple[KeyMergeMode, ...] = ()
    dry_run: bool = False
    conflicts_as_result: bool = False
    only_head: bool = False  # only while `from_ref` ends at `from_hash`


class Transplant(msgspec.Struct, frozen=True, kw_only=True):
    """A request to apply what each of some commits changed to a branch, as one new commit each.

    Of `meta`, a message that is not empty replaces that of a single commit and is left out for more; authors,
    sign-offs and properties are added to those of each commit; an author's time replaces theirs.
    """

    from_ref: str  # exists, or "DETACHED"; the commits need not be on it
    hashes: tuple[CommitHash, ...]  # oldest first, each the direct child of the one before
    meta: NewCommit
    default_behavior: MergeBehavior = MergeBehavior.NORMAL
    key_modes: tuple[KeyMergeMode, ...] = ()
    dry_run: bool = False
    conflicts_as_result: bool = False


class KeyDetails(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`conflict` is written only where there is one."""

    key: ContentKey
    merge_behavior: MergeBehavior
    conflict: Conflict | None = None


class MergeResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a merge, transplant or revert did, or in a dry run would do; a `details` row per key, in key order."""

    was_applied: bool
    was_successful: bool
    resultant_target_hash: CommitHash | None
    common_ancestor: CommitHash | None
    target_branch: str
    effective_target_hash: CommitHash
    expected_hash: CommitHash | None
    details: tuple[KeyDetails, ...] = ()
