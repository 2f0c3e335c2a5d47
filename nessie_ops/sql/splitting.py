"""Where statements end in a text that mixes ours with an engine's.

A `;` ends a statement, but for one in quotes or in a comment.  What a statement says is for others to read.
"""

from __future__ import annotations

import re

_PART = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`  # quotes
    | (?P<blank> \s+ | (?:--|//)[^\n]* | /\*.*?\*/ )
    | (?P<end> ; )
    | .""",
    re.DOTALL | re.VERBOSE,
)
_VISIBLE = re.compile(r"\S")


def split(text: str) -> list[tuple[int, int]]:
    """The begin and end of each statement, in order; one that is blank or all comment is left out."""
    found: list[tuple[int, int]] = []
    begin, has_words = 0, False
    for part in _PART.finditer(text):
        if part["end"]:
            if has_words:
                found.append((begin, part.start()))
            begin, has_words = part.end(), False
        elif not part["blank"]:
            has_words = True
    if has_words:
        found.append((begin, len(text)))
    return found


def isolate(text: str, begin: int, end: int) -> str:
    """The text with nothing but one of its statements, where it was: an error is found at its line and column."""
    return _VISIBLE.sub(" ", text[:begin]) + text[begin:end]
