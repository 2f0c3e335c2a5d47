"""`nessie-ops gc create-sql-schema` and `show-sql-create-schema-script`: the tables of live sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nessie_ops.cli.gc.groups import command, option
from nessie_ops.cli.gc.options import AsJson, Database
from nessie_ops.cli.gc.parts import find_url, prepare
from nessie_ops.cli.output import print_json, to_text
from nessie_ops.errors import BadRequest
from nessie_ops.runtime.home import get_home
from nessie_ops.store.livesets import LiveSets

DATABASES = ("postgresql", "mariadb", "sqlite")


@command
def create_sql_schema(database: Database, as_json: AsJson = False) -> None:
    """Create the tables of live sets; --jdbc-schema says what to do when they exist, by default fail."""
    if database.inmemory:
        raise typer.BadParameter("--inmemory: there is no database to create tables in.")
    url = find_url(database) if database.jdbc_url else f"sqlite:///{get_home() / 'gc.db'}"
    sets = LiveSets.open(url, create=False)
    try:
        prepare(sets, database, default="CREATE")
    finally:
        sets.close()
    print_json({"created": True}) if as_json else typer.echo("Schema created.")


@command
def show_script(
    database: Annotated[
        str, option("--database", env=False, help="postgresql, mariadb (also for MySQL) or sqlite.")
    ] = "postgresql",
    output_file: Annotated[str, option("--output-file", help="Write it there.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print the statements that create the tables of live sets."""
    if database not in DATABASES:
        raise typer.BadParameter(f"--database: give {', '.join(DATABASES)}.")
    statements = LiveSets.ddl(database)
    text = to_text({"statements": statements}) if as_json else "".join(f"{each};\n\n" for each in statements)
    if not output_file:
        typer.echo(text, nl=False)
        return
    try:
        Path(output_file).write_text(text)
    except OSError as error:
        raise BadRequest(f"output-file: {output_file}: {error.strerror}.") from None
