"""Reads query parameters by Nessie's rules: a value that cannot be read is an empty 404, not a 400."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from litestar import Request

from nessie_ops.errors import BadRequest
from nessie_ops.model import ContentKey
from nessie_ops.server.problems import NoSuchPath

_INT64 = 2**63
_MAX_FIELDS = 10_000  # parameters of one request: bounds what a long URL costs


class Query:
    """The parameters of one request."""

    def __init__(self, request: Request[Any, Any, Any]) -> None:
        raw = request.scope["query_string"]
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise NoSuchPath from None
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def text(self, name: str) -> str | None:
        """The first value; None when absent or empty."""
        return self._values.get(name, [""])[0] or None

    def texts(self, name: str) -> list[str]:
        """All values, in order, but empty ones."""
        return [text for text in self._values.get(name, []) if text]

    def integer(self, name: str) -> int | None:
        """A 64-bit number."""
        text = self.text(name)
        if text is None:
            return None
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20 and -_INT64 <= int(text) < _INT64):
            raise NoSuchPath
        return int(text)

    def choice(self, name: str, *allowed: str) -> str:
        """One of `allowed`, which starts with the default."""
        text = self.text(name) or allowed[0]
        if text not in allowed:
            raise NoSuchPath
        return text

    def flag(self, name: str) -> bool:
        return (self.text(name) or "").lower() == "true"

    def key(self, name: str) -> ContentKey | None:
        text = self.text(name)
        return parse_key(text) if text else None

    def keys(self, name: str) -> list[ContentKey]:
        """All values as keys, in order."""
        return [parse_key(text) for text in self._values.get(name, [])]

    def limit(self, maximum: int, name: str = "max-records") -> int:
        """`max-records`, at most `maximum`; absent, zero and negative mean `maximum`."""
        wanted = self.integer(name) or 0
        return min(wanted, maximum) if wanted > 0 else maximum


def parse_key(text: str) -> ContentKey:
    """A content key in URL form; malformed ones are unknown paths."""
    try:
        return ContentKey.from_path(text)
    except BadRequest:
        raise NoSuchPath from None
