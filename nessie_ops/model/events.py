"""Events: what happened to a reference, as subscribers are told; and the webhooks that wait for them.

An event is a view of one row of the reference log, so it can be made again at any time: its id depends on
the repository and on the row's sequence number alone.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from nessie_ops.model.commits import CommitMeta
from nessie_ops.model.content import ContentType
from nessie_ops.model.ids import CommitHash, ContentId
from nessie_ops.model.keys import ContentKey
from nessie_ops.model.references import ReferenceType


class EventKind(StrEnum):
    """Nessie's kinds, and three that it does not tell apart or lacks: REFERENCE_PROPERTIES, REVERT and TEST."""

    REFERENCE_CREATED = "REFERENCE_CREATED"
    REFERENCE_UPDATED = "REFERENCE_UPDATED"  # assigned to another commit
    REFERENCE_DELETED = "REFERENCE_DELETED"
    REFERENCE_PROPERTIES = "REFERENCE_PROPERTIES"
    COMMIT = "COMMIT"
    MERGE = "MERGE"
    TRANSPLANT = "TRANSPLANT"
    REVERT = "REVERT"
    TEST = "TEST"  # sent on demand, to one subscriber


class EventOperation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a commit did to a key; a PUT says which content is there now."""

    type: str
    key: ContentKey
    content_type: ContentType | None = None
    content_id: ContentId | None = None


class EventCommit(msgspec.Struct, frozen=True, rename="camel"):
    """A new commit with its operations: deletes, then puts, each by key; `has_more` when some are left out."""

    commit_meta: CommitMeta
    operations: tuple[EventOperation, ...]
    has_more: bool = False


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "kind": "type",
        "time": "timestamp",
        "reference_type": "referenceType",
        "hash_before": "hashBefore",
        "hash_after": "hashAfter",
        "has_more": "hasMore",
    },
):
    """A change of a reference.  `hash_before` is None for a creation, `hash_after` for a deletion.

    `commits` are those that a commit, merge, transplant or revert added, oldest first; `has_more` when some
    are left out, because they are too many or no longer stored: the log from `hash_after` has them.
    """

    id: str
    seq: int
    kind: EventKind
    time: datetime
    reference: str
    reference_type: ReferenceType
    hash_before: CommitHash | None
    hash_after: CommitHash | None
    commits: tuple[EventCommit, ...] = ()
    has_more: bool = False


class NewSubscriber(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a caller says of a webhook.  Without `secret` one is drawn; without `after` it begins now."""

    name: str
    url: str
    secret: str | None = None
    kinds: tuple[EventKind, ...] = ()  # none: all
    references: str = ""  # a regular expression for the whole name; empty: all
    max_attempts: int = 12
    after: int | None = None  # a sequence number of the reference log


class Subscriber(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A webhook and how far it has come.  The secret is not part of it."""

    name: str
    url: str
    kinds: tuple[EventKind, ...]
    references: str
    max_attempts: int
    active: bool
    created_at: datetime
    cursor: int  # all events up to this sequence number are delivered, left out or dead letters
    behind: int  # rows of the reference log after it
    dead_letters: int
    attempts: int = 0  # at the event after the cursor that have failed
    retry_at: datetime | None = None
    error: str = ""  # of the last attempt that failed; empty once one has succeeded


class CreatedSubscriber(msgspec.Struct, frozen=True):
    """A new webhook with its secret, which is shown this once."""

    subscriber: Subscriber
    secret: str


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event that could not be delivered; `retrying` when it is about to be sent again."""

    subscriber: str
    seq: int
    event: Event
    error: str
    attempts: int
    at: datetime
    retrying: bool = False


class Delivered(msgspec.Struct, frozen=True):
    """How a receiver took an event; `error` is empty when it was accepted."""

    accepted: bool
    error: str = ""
