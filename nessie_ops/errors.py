"""Every error that nessie_ops raises on purpose, as one tree.

    NessieOpsError
    ├── BadRequest                400 BAD_REQUEST            the request breaks a rule; sending it again cannot help
    │   └── KeyReused             422                        an Idempotency-Key that came with another request before
    ├── Forbidden                 403 FORBIDDEN
    ├── ReferenceNotFound         404 REFERENCE_NOT_FOUND    also unknown commits and missing merge bases
    ├── ContentNotFound           404 CONTENT_NOT_FOUND
    │   ├── NoSuchTable                                      no Iceberg table has this name on the reference
    │   └── NoSuchView
    ├── NamespaceNotFound         404 NAMESPACE_NOT_FOUND
    ├── NamespaceAlreadyExists    409 NAMESPACE_ALREADY_EXISTS
    ├── NamespaceNotEmpty         409 NAMESPACE_NOT_EMPTY
    ├── ReferenceAlreadyExists    409 REFERENCE_ALREADY_EXISTS
    ├── SubscriberNotFound        404 SUBSCRIBER_NOT_FOUND
    ├── SubscriberAlreadyExists   409 SUBSCRIBER_ALREADY_EXISTS
    ├── MergeRequestNotFound      404 MERGE_REQUEST_NOT_FOUND
    ├── MergeRequestNotReady      409 MERGE_REQUEST_NOT_READY  its state, checks or commit do not allow it
    ├── TransactionNotFound       404 TRANSACTION_NOT_FOUND
    ├── TransactionNotOpen        409 TRANSACTION_NOT_OPEN   it was committed, rolled back, or its lease has ended
    ├── ReferenceConflict         409 REFERENCE_CONFLICT     carries *all* conflicts
    │   ├── MergeConflict                                    also carries the merge result
    │   ├── TransactionConflict                              also says who changed what a transaction read or wrote
    │   ├── NameTaken                                        a table, view or namespace has this name already
    │   └── CommitFailed                                     a table or view changed since it was read
    │       └── Overtaken                                    between this write's own reading and writing
    ├── StoreUnavailable          503 SERVICE_UNAVAILABLE    nothing was written; try again
    ├── OutcomeUnknown            504 UNKNOWN                the answer to a write was lost; look before repeating it
    ├── MetadataUnavailable       500 UNKNOWN                a metadata file is missing or cannot be read
    ├── StoreFormatError          500 UNKNOWN                the database was written by another version
    └── MachineNotReady           500 UNKNOWN                Java, a jar or a tool is missing; says how to get it

`error_code` and `http_status` are those of the Nessie REST API.  Knows no HTTP framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from nessie_ops.model import Change, Conflict, ContentKey, MergeResult


class NessieOpsError(Exception):
    """Base of all errors; `message` is complete English text for a person."""

    error_code: ClassVar[str] = "UNKNOWN"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequest(NessieOpsError):
    error_code, http_status = "BAD_REQUEST", 400


class KeyReused(BadRequest):
    http_status = 422


class Forbidden(NessieOpsError):
    error_code, http_status = "FORBIDDEN", 403


class ReferenceNotFound(NessieOpsError):
    error_code, http_status = "REFERENCE_NOT_FOUND", 404


class _KeyError(NessieOpsError):
    """An error about one content key."""

    def __init__(self, message: str, key: ContentKey) -> None:
        super().__init__(message)
        self.key = key


class ContentNotFound(_KeyError):
    error_code, http_status = "CONTENT_NOT_FOUND", 404


class NoSuchTable(ContentNotFound):
    pass


class NoSuchView(ContentNotFound):
    pass


class NamespaceNotFound(_KeyError):
    error_code, http_status = "NAMESPACE_NOT_FOUND", 404


class NamespaceAlreadyExists(_KeyError):
    error_code, http_status = "NAMESPACE_ALREADY_EXISTS", 409


class NamespaceNotEmpty(_KeyError):
    error_code, http_status = "NAMESPACE_NOT_EMPTY", 409


class ReferenceAlreadyExists(NessieOpsError):
    error_code, http_status = "REFERENCE_ALREADY_EXISTS", 409


class SubscriberNotFound(NessieOpsError):
    error_code, http_status = "SUBSCRIBER_NOT_FOUND", 404


class SubscriberAlreadyExists(NessieOpsError):
    error_code, http_status = "SUBSCRIBER_ALREADY_EXISTS", 409


class MergeRequestNotFound(NessieOpsError):
    error_code, http_status = "MERGE_REQUEST_NOT_FOUND", 404


class MergeRequestNotReady(NessieOpsError):
    error_code, http_status = "MERGE_REQUEST_NOT_READY", 409


class TransactionNotFound(NessieOpsError):
    error_code, http_status = "TRANSACTION_NOT_FOUND", 404


class TransactionNotOpen(NessieOpsError):
    error_code, http_status = "TRANSACTION_NOT_OPEN", 409


class ReferenceConflict(NessieOpsError):
    error_code, http_status = "REFERENCE_CONFLICT", 409

    def __init__(self, message: str, conflicts: tuple[Conflict, ...] = ()) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class MergeConflict(ReferenceConflict):
    def __init__(self, message: str, result: MergeResult, conflicts: tuple[Conflict, ...]) -> None:
        super().__init__(message, conflicts)
        self.result = result


class TransactionConflict(ReferenceConflict):
    def __init__(self, message: str, conflicts: tuple[Conflict, ...], changes: tuple[Change, ...]) -> None:
        super().__init__(message, conflicts)
        self.changes = changes


class NameTaken(ReferenceConflict):
    pass


class CommitFailed(ReferenceConflict):
    pass


class Overtaken(CommitFailed):
    """Another commit changed what this one changes, between its reading and its writing."""


class StoreUnavailable(NessieOpsError):
    error_code, http_status, retryable = "SERVICE_UNAVAILABLE", 503, True


class OutcomeUnknown(NessieOpsError):
    http_status = 504


class MetadataUnavailable(NessieOpsError):
    pass


class StoreFormatError(NessieOpsError):
    pass


class MachineNotReady(NessieOpsError):
    pass
