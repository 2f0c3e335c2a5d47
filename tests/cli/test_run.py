"""The command `run`: what it passes on, and what it refuses."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from nessie_ops.cli.months import make_run
from nessie_ops.errors import BadRequest


@pytest.fixture
def seen() -> list[dict[str, object]]:
    return []


@pytest.fixture
def app(seen: list[dict[str, object]]) -> typer.Typer:
    def load(*, month: str, source: str, resume: str, all_steps: bool, as_json: bool) -> int:
        given = {"month": month, "source": source, "resume": resume, "all_steps": all_steps, "as_json": as_json}
        seen.append(given)
        return 1

    return make_run(load)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--month", "2013-01"],
            {"month": "2013-01", "source": "", "resume": "", "all_steps": False, "as_json": False},
        ),
        (
            ["--month", "2013-01", "--source", "x"],
            {"month": "2013-01", "source": "x", "resume": "", "all_steps": False, "as_json": False},
        ),
        (
            ["--month", "2013-01", "--json"],
            {"month": "2013-01", "source": "", "resume": "", "all_steps": False, "as_json": True},
        ),
        (
            ["--resume", "id", "--all-steps"],
            {"month": "", "source": "", "resume": "id", "all_steps": True, "as_json": False},
        ),
    ],
)
def test_what_is_given_is_passed_on_with_the_exit_code(
    app: typer.Typer, seen: list[dict[str, object]], arguments: list[str], expected: dict[str, object]
) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 1
    assert seen == [expected]


@pytest.mark.parametrize(
    "arguments", [[], ["--month", "2013-01", "--resume", "id"], ["--resume", "id", "--source", "x"]]
)
def test_what_contradicts_itself_is_refused(
    app: typer.Typer, seen: list[dict[str, object]], arguments: list[str]
) -> None:
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, BadRequest) and "--" in error.message
    assert seen == []
