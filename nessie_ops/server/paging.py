"""Page tokens: opaque to clients, the address of the first entry of the next page.

A token also names the commits that the listing began at, so all pages of one listing show one state
even when the branch moves in between.
"""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.model.wire import make_token

__all__ = ["make_token", "read_token"]

T = TypeVar("T")


def read_token(text: str | None, type: type[T]) -> T | None:
    """The position that a token stands for; None without token; BadRequest when it is not one of ours."""
    if text is None:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=type)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise BadRequest("page-token: this is not a token that a listing has returned.") from None
