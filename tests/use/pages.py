"""The pages of docs/use as their tests read them: what they tell people to type, and the pictures that they show."""

from __future__ import annotations

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "use"
IMAGES = PAGES / "images"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"!\[[^]]+\]\(images/([^)]+)\)")


def configuration(page: str, of: str, **values: object) -> str:
    """The one block of YAML on a page that configures `of`; each of `values` takes the place of what is so called."""
    [found] = [text for kind, text in _blocks(page) if kind == "yaml" and f"  {of}:" in text]
    for name, value in values.items():
        assert name in found, f"{page}: the configuration of {of} has no {name}"
        found = found.replace(name, str(value))
    return found


def commands(page: str, program: str = "nessie-ops") -> list[list[str]]:
    """The words of each command of `program` in a page's shell blocks, without the program, in order."""
    lines = [line for kind, text in _blocks(page) if kind == "sh" for line in text.splitlines()]
    return [line.replace("'", "").split()[1:] for line in lines if line.split()[0].endswith(f"/{program}")]


def shown() -> set[str]:
    """The names of the pictures that the pages show."""
    return {name for page in PAGES.glob("*.md") for name in _IMAGE.findall(page.read_text())}


def _blocks(page: str) -> list[tuple[str, str]]:
    return _BLOCK.findall((PAGES / page).read_text())
