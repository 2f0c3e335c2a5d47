"""`nessie-ops serve`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Protocol

import typer

S3Endpoint = Annotated[
    str, typer.Option(help="Where S3 is, unless it is that of AWS. Keys: AWS_ACCESS_KEY_ID, ...", metavar="URL")
]
S3Region = Annotated[str, typer.Option(help="Region of the bucket.")]
S3PathStyle = Annotated[bool, typer.Option("--s3-path-style", help="Name the bucket in the path, not in the host.")]
S3Role = Annotated[
    str, typer.Option(help="Role whose credentials, narrowed to one table, clients may have.", metavar="ARN")
]
StsEndpoint = Annotated[str, typer.Option(help="Where STS is. Default: that of S3.", metavar="URL")]
S3Signing = Annotated[bool, typer.Option("--s3-remote-signing", help="Sign requests to S3 for clients without keys.")]


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
        s3_endpoint: S3Endpoint = "",
        s3_region: S3Region = "",
        s3_path_style: S3PathStyle = False,
        s3_role_arn: S3Role = "",
        s3_sts_endpoint: StsEndpoint = "",
        s3_remote_signing: S3Signing = False,
    ) -> None:
        """Run the catalog's server: Nessie REST at /api/v2, Iceberg REST at /iceberg, readiness at /health."""
        s3 = {"endpoint": s3_endpoint, "region": s3_region, "path_style": _switch(s3_path_style)}
        s3 |= {"role_arn": s3_role_arn, "sts_endpoint": s3_sts_endpoint, "remote_signing": _switch(s3_remote_signing)}
        serve(
            host=host,
            port=port,
            store=store,
            warehouse=warehouse,
            allowed_locations=allowed_location or (),
            workers=workers,
            s3=s3,
        )

    return command


def _switch(on: bool) -> str:
    return "true" if on else ""
