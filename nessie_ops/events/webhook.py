"""How a webhook is signed and when it is tried again: the Standard Webhooks specification.  Pure functions.

The signature is over `id.timestamp.body`, so a receiver can tell a forged, altered or old message.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from nessie_ops.errors import BadRequest

PREFIX = "whsec_"
SECRET_BYTES = 32
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64
TOLERANCE_S = 300  # how old a message may be: the specification's libraries take this, too


class Policy(NamedTuple):
    """When a webhook gives up, tries again, and lets another process take over."""

    timeout_s: float = 10.0  # of one attempt, from looking up the host to the end of the answer
    first_retry_s: float = 1.0
    max_retry_s: float = 900.0
    lease_s: float = 15.0  # after a process died, so long until another goes on; clocks must agree better than that
    poll_s: float = 1.0  # how soon writes of other processes are seen
    pause_s: float = 0.25  # between turns at one webhook: bounds what saving its progress costs


def make_secret(raw: bytes) -> str:
    """The text of a secret's bytes."""
    return PREFIX + base64.b64encode(raw).decode()


def read_secret(text: str) -> bytes:
    """The bytes of a secret; BadRequest, which does not repeat it, when it is none."""
    try:
        raw = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    if not MIN_SECRET_BYTES <= len(raw) <= MAX_SECRET_BYTES:
        raise BadRequest(
            f"secret: give {PREFIX} and the base64 form of {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes."
        )
    return raw


def sign(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`; `timestamp` in seconds since 1970."""
    digest = hmac.digest(read_secret(secret), f"{id}.{timestamp}.".encode() + body, sha256)
    return "v1," + base64.b64encode(digest).decode()


def make_headers(secret: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of one attempt."""
    return {
        "content-type": "application/json",
        "user-agent": "nessie-ops-events",
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, id, timestamp, body),
    }


def verify(secret: str, headers: Mapping[str, str], body: bytes, now_s: float) -> str:
    """For receivers: the event's id if the message is genuine and not old; else BadRequest.

    `headers` by lower-case name; `body` as received, byte for byte.  An id may come more than once.
    """
    id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not (timestamp.isascii() and timestamp.isdecimal()) or abs(now_s - int(timestamp[:20])) > TOLERANCE_S:
        raise BadRequest(f"webhook-timestamp: absent or more than {TOLERANCE_S} seconds from now.")
    expected = sign(secret, id, int(timestamp), body)
    given = headers.get("webhook-signature", "").split(" ")
    if not any(hmac.compare_digest(expected.encode(), each.encode()) for each in given):
        raise BadRequest("webhook-signature: no signature of this message is made with this secret.")
    return id


def get_delay_s(policy: Policy, attempts: int, random: float) -> float:
    """How long to wait after so many failed attempts: twice as long each time, and up to half less by chance."""
    return min(policy.max_retry_s, policy.first_retry_s * 2.0 ** min(attempts - 1, 30)) * (1 - random / 2)
