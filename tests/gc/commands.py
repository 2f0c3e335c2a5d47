"""`nessie-ops gc` in this process, for tests."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import make_url
from typer.testing import CliRunner, Result

from nessie_ops.cli import build_app
from nessie_ops.errors import NessieOpsError


def _no_server(**options: object) -> None:
    raise AssertionError(options)


APP = build_app(_no_server)


class Commands:
    """Runs commands; `common` options go with those that read the catalog."""

    def __init__(self, *common: str) -> None:
        self.common = common

    def run(self, *words: str, code: int = 0) -> Result:
        """The result of a command, which ends with this exit code; an error of ours counts as 1."""
        result = CliRunner().invoke(APP, ["gc", *words], env={"TERMINAL_WIDTH": "200"})
        if result.exception is not None and not isinstance(result.exception, SystemExit | NessieOpsError):
            raise result.exception
        assert result.exit_code == code, (words, result.output, result.exception)
        return result

    def on(self, *words: str, code: int = 0) -> Result:
        """As `run`, with the common options."""
        return self.run(*words, *self.common, code=code)

    def json(self, *words: str, code: int = 0) -> Any:
        """What a command prints as JSON, with the common options if it reads the catalog."""
        call = self.run if words[0] in ("list", "show", "delete", "list-deferred") else self.on
        return json.loads(call(*words, "--json", code=code).stdout)

    def refuse(self, *words: str) -> str:
        """The message of an error of ours."""
        result = self.run(*words, code=1)
        assert isinstance(result.exception, NessieOpsError), result.output
        return result.exception.message


def live_sets_at(url: str) -> tuple[str, ...]:
    """The options of live sets in a database: as for Java's drivers, but for SQLite."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return ("--jdbc", "--jdbc-url", url)
    there = f"jdbc:{parsed.get_backend_name()}://{parsed.host}:{parsed.port}/{parsed.database}"
    return (
        "--jdbc",
        "--jdbc-url",
        there,
        "--jdbc-user",
        parsed.username or "",
        "--jdbc-password",
        parsed.password or "",
    )
