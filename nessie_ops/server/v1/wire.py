"""Answers of the REST API v1: the model's values in the older, narrower shapes.

Clients of v1 (pynessie among them) refuse fields that they do not know, so nothing is here that v1 has not.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

from nessie_ops import model
from nessie_ops.model import (
    CommitHash,
    CommitMeta,
    Content,
    ContentKey,
    ContentType,
    Delete,
    DiffEntry,
    LogEntry,
    MergeBehavior,
    MergeResult,
    Namespace,
    Reference,
)
from nessie_ops.model.wire import KeyedContent, Page, ReferenceMetadata


class ConfigV1(msgspec.Struct, frozen=True, rename="camel"):
    default_branch: str
    max_supported_api_version: int


class Meta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Commit meta with the first author, sign-off and value of each property."""

    hash: CommitHash
    committer: str
    author: str | None
    signed_off_by: str | None
    message: str
    commit_time: datetime
    author_time: datetime
    properties: dict[str, str]

    @classmethod
    def of(cls, meta: CommitMeta) -> Meta:
        return cls(
            hash=meta.hash,
            committer=meta.committer,
            author=next(iter(meta.authors), None),
            signed_off_by=next(iter(meta.all_signed_off_by), None),
            message=meta.message,
            commit_time=meta.commit_time,
            author_time=meta.author_time,
            properties={name: values[0] for name, values in meta.all_properties.items() if values},
        )


class HeadMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `fetch=ALL` adds to a reference."""

    num_commits_ahead: int | None
    num_commits_behind: int | None
    commit_meta_of_head: Meta = msgspec.field(name="commitMetaOfHEAD")
    common_ancestor_hash: CommitHash | None
    num_total_commits: int


class _Named(msgspec.Struct, frozen=True, tag_field="type"):
    name: str
    hash: CommitHash
    metadata: HeadMetadata | UnsetType = UNSET


class BranchV1(_Named, frozen=True, tag="BRANCH"):
    """A branch; what properties it has is not for v1."""


class TagV1(_Named, frozen=True, tag="TAG"):
    """A tag."""


def to_reference(reference: Reference, metadata: ReferenceMetadata | None = None) -> BranchV1 | TagV1:
    """The reference as v1 shows it."""
    kind = TagV1 if isinstance(reference, model.Tag) else BranchV1
    if metadata is None:
        return kind(reference.name, reference.hash)
    return kind(
        reference.name,
        reference.hash,
        HeadMetadata(
            num_commits_ahead=metadata.num_commits_ahead,
            num_commits_behind=metadata.num_commits_behind,
            commit_meta_of_head=Meta.of(metadata.commit_meta_of_head),
            common_ancestor_hash=metadata.common_ancestor_hash,
            num_total_commits=metadata.num_total_commits,
        ),
    )


class ReferencePageV1(Page, frozen=True):
    references: tuple[BranchV1 | TagV1, ...]


class PutLogV1(msgspec.Struct, frozen=True, tag="PUT", tag_field="type"):
    key: ContentKey
    content: Content
    expected_content: None = msgspec.field(default=None, name="expectedContent")  # never stored


class LoggedCommit(msgspec.Struct, frozen=True, rename="camel"):
    commit_meta: Meta
    parent_commit_hash: CommitHash
    operations: tuple[PutLogV1 | Delete, ...] | None

    @classmethod
    def of(cls, entry: LogEntry) -> LoggedCommit:
        operations = None if entry.operations is None else tuple(map(_to_operation, entry.operations))
        return cls(Meta.of(entry.commit_meta), entry.parent_commit_hash, operations)


def _to_operation(operation: model.PutLog | Delete) -> PutLogV1 | Delete:
    return operation if isinstance(operation, Delete) else PutLogV1(operation.key, operation.content)


class LogPageV1(Page, frozen=True, rename="camel"):
    log_entries: tuple[LoggedCommit, ...]


class EntryV1(msgspec.Struct, frozen=True):
    type: ContentType
    name: ContentKey


class EntryPageV1(Page, frozen=True, rename="camel"):
    entries: tuple[EntryV1, ...]


class ContentsV1(msgspec.Struct, frozen=True):
    contents: tuple[KeyedContent, ...]


class Diffs(Page, frozen=True, rename="camel"):
    diffs: tuple[DiffEntry, ...]


class Namespaces(msgspec.Struct, frozen=True):
    namespaces: tuple[Namespace, ...]


class KeyDetailsV1(msgspec.Struct, frozen=True, rename="camel"):
    key: ContentKey
    merge_behavior: MergeBehavior
    conflict_type: str
    source_commits: tuple[CommitHash, ...] = ()
    target_commits: tuple[CommitHash, ...] = ()


class Merged(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a merge or transplant; the lists of commits are never filled."""

    was_applied: bool
    was_successful: bool
    resultant_target_hash: CommitHash | None
    common_ancestor: CommitHash | None
    target_branch: str
    effective_target_hash: CommitHash
    expected_hash: CommitHash | None
    source_commits: tuple[LoggedCommit, ...] = ()
    target_commits: tuple[LoggedCommit, ...] | None = None
    details: tuple[KeyDetailsV1, ...]

    @classmethod
    def of(cls, result: MergeResult) -> Merged:
        return cls(
            was_applied=result.was_applied,
            was_successful=result.was_successful,
            resultant_target_hash=result.resultant_target_hash,
            common_ancestor=result.common_ancestor,
            target_branch=result.target_branch,
            effective_target_hash=result.effective_target_hash,
            expected_hash=result.expected_hash,
            details=tuple(
                KeyDetailsV1(row.key, row.merge_behavior, "UNRESOLVABLE" if row.conflict else "NONE")
                for row in result.details
            ),
        )
