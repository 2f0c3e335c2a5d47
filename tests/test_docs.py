"""Documents tell the truth: links lead somewhere, and every command in a code block exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from nessie_ops.__main__ import make_app

APP = typer.main.get_command(make_app())
ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
BLOCK = re.compile(r"^( *)```(?:sh|bash|console)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """(document, command) for each line of the documents' shell blocks; output lines of consoles are left out."""
    found = []
    for document in DOCUMENTS:
        for _, block in BLOCK.findall(document.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                line = line.strip().removeprefix("$ ")
                if line and not line.startswith("#"):
                    found.append((document.name, line))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target, _ in LINK.findall(document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_there_are_commands() -> None:
    assert {"make demo", "make test"} <= {line for name, line in commands() if name == "README.md"}


@pytest.mark.parametrize(("document", "line"), commands())
def test_commands_exist(document: str, line: str) -> None:
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    name = Path(words[0]).name
    if name == "make":
        targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert {word for word in words[1:] if "=" not in word} <= targets
    elif name == "nessie-ops":
        _check_options(words[1:])
    elif name == "python" and words[1] == "-m":
        module = ROOT / words[2].replace(".", "/")
        assert module.with_suffix(".py").exists() or (module / "__main__.py").exists()
    else:
        assert name in {"git", "cd", "curl", "export"}, f"{document}: is '{line}' right? Teach this test to check it."


def _check_options(words: list[str]) -> None:
    """There is such a command, and it has every option used."""
    command, known = APP, {"--help", "--version", "--install-completion", "--show-completion"}
    for word in words:
        inner = getattr(command, "commands", {})
        if word in inner:
            command = inner[word]
    assert command is not APP or words[0] in known, words
    known |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for option in (word.split("=")[0] for word in words if word.startswith("--")):
        assert option in known, option
