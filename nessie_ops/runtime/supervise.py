"""Run a command so that nothing of it outlives whoever asked for it: `python -m nessie_ops.runtime.supervise COMMAND`.

The command gets a process group of its own.  A request to stop (SIGINT, SIGTERM), or the end of the process that
started this one, is passed on to the whole group; what is left of it after the grace period, or after the command
itself has ended, is killed.  Ends with the command's exit code, or 128 and the signal's number.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

GRACE_S = 10.0
_POLL_S = 0.1


def supervise(command: Sequence[str], grace_s: float = GRACE_S) -> int:
    """Run `command` to its end; its exit code."""
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, _frame: asked.append(got))
    parent = os.getppid()
    process = subprocess.Popen(command, start_new_session=True)
    deadline = None
    try:
        while process.poll() is None:
            if deadline is None and (asked or os.getppid() != parent):
                _signal(process.pid, signal.SIGTERM)
                deadline = time.monotonic() + grace_s
            if deadline is not None and time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
    finally:
        _signal(process.pid, signal.SIGKILL)
    code = process.wait()
    return code if code >= 0 else 128 - code


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(supervise(sys.argv[1:]))
