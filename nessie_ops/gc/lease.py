"""Whose a live set is while a run works on it: a lease that is renewed in the background, and ends with the process.

A run names itself by its machine and process, so that the next run on this machine need not wait for the lease of
one that was killed.  Elsewhere it waits.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from nessie_ops.errors import BadRequest, StoreUnavailable

BEAT_S = 60  # between two renewals of a lease of five minutes
_OWNER = re.compile(r"([0-9a-f]{16})-(\d+)-(\d+)(?:-[0-9a-f]{1,16})?")


def name_run(run: str) -> str:
    """The name of a run of this process; `run` are hexadecimal digits that tell it from the process's others."""
    return f"{_machine()}-{os.getpid()}-{_started_at(os.getpid()) or 0}-{run[:8]}"


def is_dead(owner: str) -> bool:
    """Whether the process of this name is known to have ended; False for one of another machine."""
    match = _OWNER.fullmatch(owner)
    if match is None or match[1] != _machine():
        return False
    started = _started_at(int(match[2]))
    return started is None or started != int(match[3])


def _machine() -> str:
    """This machine, or the container whose processes this one sees."""
    parts = [socket.gethostname()]
    with suppress(OSError):  # not Linux
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _started_at(pid: int) -> int | None:
    """When a process began, in a unit of the machine's; 0 where that cannot be known, None when there is none."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:  # somebody else's
        return 0
    return 0


class Heartbeat:
    """Calls `renew` in the background for as long as the context lasts; `check` tells whether it ever failed."""

    def __init__(self, renew: Callable[[], None]) -> None:
        self._renew = renew
        self._stop = threading.Event()
        self._lost: BadRequest | None = None
        self._thread = threading.Thread(target=self._run, name="nessie-ops-gc-lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """BadRequest when another run has taken over."""
        if self._lost:
            raise self._lost
        self._renew()

    def _run(self) -> None:
        while not self._stop.wait(BEAT_S):
            try:
                self._renew()
            except BadRequest as error:
                self._lost = error
                return
            except StoreUnavailable:
                continue  # the next beat may reach it, before the lease ends
