"""Exit codes: what a script learns of a command that did not do what it was asked.

`gc`, `run` and `ci` have codes of their own; what they do not catch is a 1.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from nessie_ops import errors
from nessie_ops.errors import NessieOpsError

FAILED, USAGE, CONFLICT, NOT_FOUND, NO_ANSWER, UNKNOWN = 1, 2, 3, 4, 5, 6
INTERRUPTED, CLOSED_PIPE = 130, 141  # as a shell tells of SIGINT and SIGPIPE

_CODES: tuple[tuple[type[NessieOpsError], int], ...] = (
    (errors.BadRequest, USAGE),
    (errors.ReferenceConflict, CONFLICT),
    (errors.ReferenceAlreadyExists, CONFLICT),
    (errors.NamespaceAlreadyExists, CONFLICT),
    (errors.NamespaceNotEmpty, CONFLICT),
    (errors.SubscriberAlreadyExists, CONFLICT),
    (errors.ReferenceNotFound, NOT_FOUND),
    (errors.ContentNotFound, NOT_FOUND),
    (errors.NamespaceNotFound, NOT_FOUND),
    (errors.SubscriberNotFound, NOT_FOUND),
    (errors.MergeRequestNotFound, NOT_FOUND),
    (errors.TransactionNotFound, NOT_FOUND),
    (errors.StoreUnavailable, NO_ANSWER),
    (errors.OutcomeUnknown, UNKNOWN),
)
_OWN_CODES = {"gc", "run", "ci"}

MEANINGS = {
    0: "done",
    FAILED: "it failed, or was refused; what a check looked for is wrong; a wait has no good end",
    USAGE: "the command line cannot be read, or asks for what cannot be",
    CONFLICT: "a conflict: others changed the same, or the name is taken; nothing was written",
    NOT_FOUND: "a reference, commit, content, transaction, merge request or subscriber does not exist",
    NO_ANSWER: "no answer from the server or the database; nothing was written, try again",
    UNKNOWN: "the answer to a write was lost: look before repeating it",
    INTERRUPTED: "interrupted by Ctrl-C",
    CLOSED_PIPE: "whoever read the output closed it",
}


def code_of(error: NessieOpsError, command: str) -> int:
    """The exit code of a command, such as `branch`, that an error ended."""
    if command in _OWN_CODES:
        return FAILED
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def fail(message: str, code: int) -> NoReturn:
    """End the process with one line on stderr."""
    print(f"nessie-ops: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def end_output() -> None:
    """Write what is still to be written; a reader that has gone away ends the process with CLOSED_PIPE."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        sys.exit(CLOSED_PIPE)


def forget_output() -> None:
    """Let what was not written go nowhere, so that Python does not complain of it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
