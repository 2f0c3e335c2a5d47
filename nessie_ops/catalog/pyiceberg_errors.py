"""Errors of the catalog as PyIceberg's exceptions: those that its REST client raises for the same errors.

One is told better: what a lost answer leaves unknown is a CommitStateUnknownException for every kind of
write, and what certainly was not applied never is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    ServerError,
    ServiceUnavailableError,
)

from nessie_ops.errors import (
    BadRequest,
    Forbidden,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NameTaken,
    NessieOpsError,
    NoSuchTable,
    NoSuchView,
    OutcomeUnknown,
    ReferenceConflict,
    ReferenceNotFound,
    StoreUnavailable,
)

_EXCEPTIONS: tuple[tuple[type[NessieOpsError], type[Exception]], ...] = (  # the first that fits
    (NoSuchTable, NoSuchTableError),
    (NoSuchView, NoSuchViewError),
    (NamespaceNotFound, NoSuchNamespaceError),
    (NamespaceNotEmpty, NamespaceNotEmptyError),
    (NamespaceAlreadyExists, NamespaceAlreadyExistsError),
    (ReferenceConflict, CommitFailedException),
    (ReferenceNotFound, BadRequestError),
    (BadRequest, BadRequestError),
    (Forbidden, ForbiddenError),
    (StoreUnavailable, ServiceUnavailableError),
    (OutcomeUnknown, CommitStateUnknownException),
    (NessieOpsError, ServerError),
)


@contextmanager
def pyiceberg_errors(taken: type[Exception] = CommitFailedException) -> Iterator[None]:
    """Raise PyIceberg's exceptions; `taken` for a name that something has already."""
    try:
        yield
    except NameTaken as error:
        raise taken(error.message) from error
    except NessieOpsError as error:
        kind = next(exception for ours, exception in _EXCEPTIONS if isinstance(error, ours))
        raise kind(error.message) from error
