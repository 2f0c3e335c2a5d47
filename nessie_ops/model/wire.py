"""Envelopes of the REST API v2: what wraps the model's values in answers.  Server and client share them.

Field names and nulls are those of Nessie's answers; requests have no structs here, since the server
reads them leniently and the client writes them exactly.
"""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import msgspec

from nessie_ops.model.commits import CheckedCommit, CommitMeta, Consistency, DiffEntry, Entry, LogEntry
from nessie_ops.model.content import Content
from nessie_ops.model.events import DeadLetter, Event, Subscriber
from nessie_ops.model.ids import CommitHash
from nessie_ops.model.keys import ContentKey
from nessie_ops.model.mergerequests import MergeRequest
from nessie_ops.model.merges import Conflict
from nessie_ops.model.references import Branch, Detached, Reference, ReferenceMove, ReferenceType, Tag
from nessie_ops.model.repository import RepositoryConfig
from nessie_ops.model.transactions import CatalogTransaction, Change

AnyReference = Branch | Tag | Detached


class Page(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of a listing; `token` asks for the next one, and is None on the last."""

    has_more: bool = False
    token: str | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    default_branch: str
    min_supported_api_version: int
    max_supported_api_version: int
    actual_api_version: int
    spec_version: str
    no_ancestor_hash: CommitHash
    repository_creation_timestamp: datetime
    oldest_possible_commit_timestamp: datetime


class ReferenceMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `fetch=ALL` adds to a reference; the comparison with the default branch is None where there is none."""

    num_commits_ahead: int | None
    num_commits_behind: int | None
    commit_meta_of_head: CommitMeta = msgspec.field(name="commitMetaOfHEAD")
    common_ancestor_hash: CommitHash | None
    num_total_commits: int


class RepositoryConfigs(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is configured; without any, the field is left out."""

    configs: tuple[RepositoryConfig, ...] = ()


class PreviousConfig(msgspec.Struct, frozen=True):
    previous: RepositoryConfig | None


class SingleReference(msgspec.Struct, frozen=True):
    reference: Reference


class ReferencePage(Page, frozen=True):
    references: tuple[Reference, ...]


class EntryPage(Page, frozen=True, rename="camel"):
    entries: tuple[Entry, ...]
    effective_reference: AnyReference


class SingleContent(msgspec.Struct, frozen=True, rename="camel"):
    content: Content
    effective_reference: AnyReference


class KeyedContent(msgspec.Struct, frozen=True):
    key: ContentKey
    content: Content


class Contents(msgspec.Struct, frozen=True, rename="camel"):
    contents: tuple[KeyedContent, ...]
    effective_reference: AnyReference


class LogPage(Page, frozen=True, rename="camel"):
    log_entries: tuple[LogEntry, ...]


class DiffPage(Page, frozen=True, rename="camel"):
    diffs: tuple[DiffEntry, ...]
    effective_from_reference: AnyReference
    effective_to_reference: AnyReference


class LoadedTable(msgspec.Struct, frozen=True):
    """What the Iceberg REST catalog answers for a table, as far as it is read here."""

    metadata: msgspec.Raw


class MovePage(Page, frozen=True, rename="camel"):
    """A page of the reference log."""

    moves: tuple[ReferenceMove, ...]


class MergeRequestPage(Page, frozen=True, rename="camel"):
    merge_requests: tuple[MergeRequest, ...]


class BeforeNumber(msgspec.Struct, frozen=True):
    """The merge request below which a page begins."""

    number: int


class TransactionPage(Page, frozen=True, rename="camel"):
    transactions: tuple[CatalogTransaction, ...]


class AfterId(msgspec.Struct, frozen=True):
    """The transaction after which a page begins."""

    id: str


class EventPage(msgspec.Struct, frozen=True, rename="camel"):
    """A page of events; the next one begins after `last_seq`."""

    events: tuple[Event, ...]
    last_seq: int
    has_more: bool


class Subscribers(msgspec.Struct, frozen=True):
    subscribers: tuple[Subscriber, ...]


class DeadLetterPage(msgspec.Struct, frozen=True, rename="camel"):
    """A page of dead letters; the next one begins after the last sequence number."""

    dead_letters: tuple[DeadLetter, ...]
    has_more: bool


class Count(msgspec.Struct, frozen=True):
    count: int


class RecentChanges(msgspec.Struct, frozen=True, rename="camel"):
    """The head of a reference, and those that it had before, newest first."""

    reference: Reference
    current: CheckedCommit
    previous: tuple[CheckedCommit, ...]
    commit_log_consistency: Consistency


class ReferencePosition(msgspec.Struct, frozen=True):
    """Where a listing of references goes on: after this one."""

    type: ReferenceType
    name: str


def make_token(position: msgspec.Struct) -> str:
    """A page token: opaque to other clients, the address of the first row of a page."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


class ReferenceConflicts(msgspec.Struct, frozen=True, tag="REFERENCE_CONFLICTS", tag_field="type", omit_defaults=True):
    """`changes`, who changed what, are only those of a transaction's conflicts."""

    conflicts: tuple[Conflict, ...]
    changes: tuple[Change, ...] | None = None


class ContentKeyDetails(msgspec.Struct, frozen=True, tag="CONTENT_KEY", tag_field="type", rename="camel"):
    content_key: ContentKey


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What every error answers; details only for clients that say they can read them."""

    status: int
    reason: str
    message: str
    error_code: str
    error_details: ReferenceConflicts | ContentKeyDetails | msgspec.UnsetType = msgspec.UNSET
    server_stack_trace: str | None = None


def to_json(value: Any) -> bytes:
    """The JSON of a struct or of plain values; a text that knows more of itself is a text."""
    return msgspec.json.encode(value, enc_hook=_to_plain)


def _to_plain(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON")
