"""The exit codes of `nessie-ops ci`, by which a pipeline tells what it must do; without a catalog."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from nessie_ops.cli.ci import Answer, Asked, Commands, make_ci
from nessie_ops.errors import BadRequest


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadRequest("name: no"), 2),
        (OSError("no disk"), 2),
        (KeyboardInterrupt(), 3),
        (RuntimeError("database is locked"), 3),
        (None, 1),
    ],
)
def test_only_failed_checks_are_code_1(error: BaseException | None, code: int) -> None:
    def up(asked: Asked, tell: object) -> Answer:
        if error:
            raise error
        return Answer({}, ["checks failed"], 1)

    def change(name: str, *, by: str, dry_run: bool) -> Answer:
        return Answer({}, [], 0)

    app = make_ci(lambda: Commands(up, change, change, lambda: Answer([], [], 0)))
    found = CliRunner().invoke(app, ["up", "--name", "pr-1"])
    assert found.exit_code == code and str(error or "checks failed") in found.output + found.stderr
