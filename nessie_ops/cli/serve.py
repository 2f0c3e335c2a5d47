"""`nessie-ops serve`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Protocol

import typer


class Serve(Protocol):
    """Runs the server until it is told to stop; None and nothing mean the environment's or the default value."""

    def __call__(
        self,
        *,
        host: str | None,
        port: int | None,
        store: str | None,
        warehouse: str | None,
        allowed_locations: Sequence[str],
        workers: int,
        s3: Mapping[str, str],
    ) -> None: ...


def make_serve(serve: Serve) -> Callable[..., None]:
    """The command that calls `serve`."""

    def command(
        host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
        port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one. Default: 19120.")] = None,
        store: Annotated[
            str | None,
            typer.Option(help="SQLAlchemy URL of the catalog's database. Default: in NESSIE_OPS_HOME.", metavar="URL"),
        ] = None,
        warehouse: Annotated[
            str | None,
            typer.Option(help="Folder or bucket for tables. Default: in NESSIE_OPS_HOME.", metavar="URL"),
        ] = None,
        allowed_location: Annotated[
            list[str] | None,
            typer.Option(
                help="Another folder or bucket that tables may lie in; may be repeated. "
                "Default: NESSIE_OPS_ALLOWED_LOCATIONS, separated by commas.",
                metavar="PREFIX",
            ),
        ] = None,
        workers: Annotated[
            int,
            typer.Option(help="Processes that share port and store.", min=1, max=64, envvar="NESSIE_OPS_WORKERS"),
        ] = 1,
        s3_endpoint: Annotated[
            str, typer.Option(help="Where S3 is, unless it is that of AWS. Keys: AWS_ACCESS_KEY_ID, ...", metavar="URL")
        ] = "",
        s3_region: Annotated[str, typer.Option(help="Region of the bucket.")] = "",
        s3_path_style: Annotated[
            bool, typer.Option("--s3-path-style", help="Name the bucket in the path, not in the host.")
        ] = False,
    ) -> None:
        """Run the catalog's server: Nessie REST at /api/v2, Iceberg REST at /iceberg, readiness at /health."""
        serve(
            host=host,
            port=port,
            store=store,
            warehouse=warehouse,
            allowed_locations=allowed_location or (),
            workers=workers,
            s3={"endpoint": s3_endpoint, "region": s3_region, "path_style": "true" if s3_path_style else ""},
        )

    return command
