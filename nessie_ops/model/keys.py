"""Content keys: a path of 1 to 20 names, and the two text forms in which URLs carry it.

Key bytes are the elements joined by NUL, so byte order is path order: a parent, its children, the
next sibling.  Limits and escapes follow Nessie's REST specification 2.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import total_ordering

import msgspec

from nessie_ops.errors import BadRequest

MAX_ELEMENTS = 20  # Nessie's limits: they bound the length of index keys
MAX_UTF16_UNITS = 500

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f]|[\ud800-\udfff]")
_NEEDS_ESCAPE = re.compile(r"[./\\%]")
_ESCAPES = {".": "*.", "*": "**", "/": "*{", "\\": "*}", "%": "*["}
_UNESCAPES = {code[1]: char for char, code in _ESCAPES.items()}


def _count_utf16(texts: Iterable[str]) -> int:
    """Code units, of which a character has one or two."""
    return sum(len(text.encode("utf-16-le")) // 2 for text in texts)


@total_ordering
class ContentKey(msgspec.Struct, frozen=True, gc=False):
    """The name of a content on a reference, such as ("db", "orders")."""

    elements: tuple[str, ...]

    @classmethod
    def of(cls, *elements: str) -> ContentKey:
        """A validated key; BadRequest says what is wrong."""
        return cls(elements).validated()

    def validated(self) -> ContentKey:
        """This key, if it obeys the limits; else BadRequest."""
        if not self.elements:
            raise BadRequest("Content key must have at least one element.")
        if len(self.elements) > MAX_ELEMENTS:
            raise BadRequest(f"Content key has {len(self.elements)} elements; at most {MAX_ELEMENTS} are allowed.")
        for element in self.elements:
            if not element:
                raise BadRequest(f"Content key '{self}' must not contain an empty element.")
            if _FORBIDDEN.search(element):
                raise BadRequest(f"Content key {self.elements!r} contains a control character.")
        characters = sum(map(len, self.elements))
        if characters > MAX_UTF16_UNITS // 2 and _count_utf16(self.elements) > MAX_UTF16_UNITS:
            raise BadRequest(f"Content key is longer than {MAX_UTF16_UNITS} characters.")
        return self

    @property
    def parent(self) -> ContentKey | None:
        """The namespace that holds this key; None at the top."""
        return ContentKey(self.elements[:-1]) if len(self.elements) > 1 else None

    @property
    def name(self) -> str:
        """The last element."""
        return self.elements[-1]

    def child(self, name: str) -> ContentKey:
        return ContentKey((*self.elements, name))

    def to_bytes(self) -> bytes:
        """Index key: elements joined by NUL."""
        return "\x00".join(self.elements).encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> ContentKey:
        return cls(tuple(raw.decode().split("\x00")))

    def to_path(self) -> str:
        """Text for a URL: `a.b`, or the escaped form `.a*.b.c` when an element needs it."""
        if not any(_NEEDS_ESCAPE.search(element) for element in self.elements):
            return ".".join(self.elements)
        return "." + ".".join("".join(_ESCAPES.get(char, char) for char in element) for element in self.elements)

    @classmethod
    def from_path(cls, text: str) -> ContentKey:
        """Inverse of `to_path`; also reads the older form with U+001D or NUL for dots in elements."""
        if text.startswith("."):
            elements = _split_escaped(text[1:])
        else:
            elements = [part.replace("\x1d", ".").replace("\x00", ".") for part in text.removesuffix(".").split(".")]
        return cls(tuple(elements)).validated()

    def __str__(self) -> str:
        return ".".join(self.elements)

    def __lt__(self, other: ContentKey) -> bool:
        return self.to_bytes() < other.to_bytes()


def _split_escaped(text: str) -> list[str]:
    elements = [""]
    chars = iter(text)
    for char in chars:
        if char == ".":
            elements.append("")
        elif char == "*":
            code = next(chars, "")
            if code not in _UNESCAPES:
                raise BadRequest(f"Content key '{text[:80]}' contains the unknown escape '*{code}'.")
            elements[-1] += _UNESCAPES[code]
        else:
            elements[-1] += char
    if len(elements) > 1 and elements[-1] == "":
        elements.pop()
    return elements
