"""What a reader may count on in every file: its size, a first line that says what it is, and nothing left over."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("nessie_ops", "assets", "resources", "schedules", "benchmarks", "tests")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
# Spelt so that this file does not find itself.
LEFTOVERS = {
    "a note to oneself": r"\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b",
    "a debugger": r"\bbreak[p]oint\(|\bimport pd[b]\b",
    "a test that does not run": r"\bpytest\.(mark\.)?([s]kip|[s]kipif|[x]fail|import[o]rskip)\b",
}
STOPWATCH = r"\b(perf_counte[r]|process_tim[e]|timei[t])\b"  # speed is the benchmarks' business, not that of a test
# Mounting a file system is a right, and Go a compiler, that not every machine has; the run's summary then names
# what was left out.
MAY_LEAVE_OUT = {"small_disk.py", "honest_buckets.py"}
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def faults(name: str, source: str) -> list[str]:
    """What is untidy in the file called `name`."""
    lines, tree = source.splitlines(), ast.parse(source)
    found = []
    if len(lines) > MAX_FILE_LINES:
        found.append(f"{len(lines)} lines, at most {MAX_FILE_LINES}")
    if lines and not ast.get_docstring(tree):
        found.append("no docstring")
    for function in functions(tree):
        length = (function.end_lineno or 0) - function.lineno + 1
        if length > MAX_FUNCTION_LINES:
            found.append(f"{function.name}: {length} lines, at most {MAX_FUNCTION_LINES}")
        if function.name.startswith("test_") and not name.startswith("test_"):
            found.append(f"{function.name} is never run: pytest collects test_*.py alone")
    for what, pattern in LEFTOVERS.items():
        if name in MAY_LEAVE_OUT and what == "a test that does not run":
            continue
        found += [f"{what}: {match[0]}" for match in re.finditer(pattern, source)]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_tidy(path: Path) -> None:
    assert faults(path.name, path.read_text()) == []


def test_no_test_measures_how_long_something_takes() -> None:
    tests = [path for path in SOURCES if path.is_relative_to(ROOT / "tests")]
    assert [path.name for path in tests if re.search(STOPWATCH, path.read_text())] == []


def test_half_of_all_files_and_functions_are_short() -> None:
    texts = [path.read_text() for path in SOURCES]
    lengths = [(f.end_lineno or 0) - f.lineno + 1 for text in texts for f in functions(ast.parse(text))]
    assert median(len(text.splitlines()) for text in texts) <= 150
    assert median(lengths) <= 10


def test_the_linter_finds_nothing() -> None:
    linter = subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", ROOT], capture_output=True, text=True)
    assert linter.stdout + linter.stderr == ""


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.py", "x = 1\n"),
        ("a.py", '"""Doc."""\n' + "\n" * MAX_FILE_LINES),
        ("a.py", '"""Doc."""\ndef f():\n' + "    pass\n" * MAX_FUNCTION_LINES),
        ("a.py", '"""Doc."""\n# {}DO later\n'.format("TO")),
        ("test_a.py", '"""Doc."""\n@pytest.mark.{}\ndef test_a(): ...\n'.format("skip")),
        ("helpers.py", '"""Doc."""\ndef test_a(): ...\n'),
    ],
)
def test_a_fault_is_seen(name: str, source: str) -> None:
    assert len(faults(name, source)) == 1
