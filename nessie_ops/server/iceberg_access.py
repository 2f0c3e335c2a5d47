"""Access to files for clients that ask for it by `X-Iceberg-Access-Delegation`: credentials, or signatures.

When a client takes both and the server gives both, it gets credentials, since they cost no request for each file.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
from litestar import Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import RawBody

from nessie_ops.catalog import IcebergCatalog, Loaded
from nessie_ops.catalog.grants import Grant
from nessie_ops.catalog.signing import SignRequest
from nessie_ops.errors import BadRequest, NessieOpsError
from nessie_ops.server.addresses import base_uri
from nessie_ops.server.iceberg_problems import log
from nessie_ops.server.iceberg_requests import SEPARATOR, Target, get_delegations, get_target, read_body
from nessie_ops.server.iceberg_responses import table_response
from nessie_ops.server.once import Answer, Complete
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.responses import json_response

Json = dict[str, Any]
VENDED, SIGNED = "vended-credentials", "remote-signing"


class _Told(msgspec.Struct, rename="kebab"):
    """The answer to a new table."""

    metadata: msgspec.Raw
    metadata_location: str | None = None


def add_access(request: AnyRequest, catalog: IcebergCatalog, target: Target) -> Complete | None:
    """What adds access to the answer to a new table, None when nothing is to be added; BadRequest as `is_offered`.

    A table that is committed is no failure when there is no access to it, which a load then tells; a staged one is.
    """

    def complete(answer: Answer) -> Answer:
        told = msgspec.json.decode(answer.body, type=_Told)
        made = Loaded(told.metadata_location, bytes(told.metadata))
        try:
            return Answer.of(table_response(made, access=offer_access(request, catalog, target, made)))
        except NessieOpsError as error:
            if made.metadata_location is None:
                raise
            log.warning("%s: the answer gives no access to its files: %s", target.key, error)
            return answer

    return complete if is_offered(request, catalog) else None


def offer_access(request: AnyRequest, catalog: IcebergCatalog, target: Target, loaded: Loaded) -> Json:
    """What the answer to a loaded table says of access to its files; nothing unless that was asked for."""
    wanted, access = get_delegations(request), catalog.access
    vends, signs = access.vends and VENDED in wanted, access.signs and SIGNED in wanted
    if not (vends or signs):
        return {}
    grant = access.grant(target.ref, loaded.metadata)
    if not grant.locations:
        return {}
    path = _path(target)
    if not vends:
        return {"config": _signing(catalog, f"{base_uri(request)}iceberg", path), "remote-signing-config": {}}
    config = {**_credentials(catalog, grant), "client.refresh-credentials-endpoint": f"{path}/credentials"}
    return {"config": config, "storage-credentials": _by_prefix(grant, config)}


def is_offered(request: AnyRequest, catalog: IcebergCatalog) -> bool:
    """Whether the answer to this client may hold access, which ends some time, unlike metadata; BadRequest."""
    wanted = get_delegations(request)
    return (catalog.access.vends and VENDED in wanted) or (catalog.access.signs and SIGNED in wanted)


def access_handlers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    tables = catalog.tables

    @get("/namespaces/{namespace:str}/tables/{table:str}/credentials", sync_to_thread=True)
    def load_credentials(request: AnyRequest) -> Response[bytes]:
        """None where the server has no role to give: clients then reach the files with what they have."""
        if "planId" in request.query_params:
            raise BadRequest("planId: this server plans no scans; leave it out.")
        target = get_target(request, catalog, "table")
        found = tables.read(tables.find(target.ref, target.key), all_snapshots=True)
        if not catalog.access.vends:
            return json_response({"storage-credentials": []})
        grant = catalog.access.grant(target.ref, found.metadata)
        config = _credentials(catalog, grant) if grant.locations else {}
        return json_response({"storage-credentials": _by_prefix(grant, config)})

    @post("/namespaces/{namespace:str}/tables/{table:str}/sign", sync_to_thread=True)
    def sign_request(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, SignRequest)
        target = get_target(request, catalog, "table")
        answer = json_response(catalog.access.sign(target.ref, target.key, given)._asdict())
        # Iceberg's client then uses the signature for other parts of the file, too, for half a minute.
        is_reading = given.method in ("GET", "HEAD")
        answer.set_header("Cache-Control", "private" if is_reading else "no-store")
        return answer

    return [load_credentials, sign_request]


def _path(target: Target) -> str:
    """Of the table, below the catalog's address."""
    *namespace, name = target.key.elements
    parts = target.ref, SEPARATOR.join(namespace), name
    ref, parent, table = (quote(part, safe="") for part in parts)
    return f"v1/{ref}/namespaces/{parent}/tables/{table}"


def _signing(catalog: IcebergCatalog, uri: str, path: str) -> dict[str, str]:
    return {
        **_common(catalog),
        "s3.remote-signing-enabled": "true",
        # For PyIceberg, whose other way to S3 does not sign, and for Iceberg up to 1.11; later ones know the endpoint.
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.uri": uri,
        "s3.signer.endpoint": f"{path}/sign",
    }


def _credentials(catalog: IcebergCatalog, grant: Grant) -> dict[str, str]:
    found = catalog.access.vend(grant)
    return {
        **_common(catalog),
        "s3.access-key-id": found.key,
        "s3.secret-access-key": found.secret,
        "s3.session-token": found.token,
        "s3.session-token-expires-at-ms": str(found.expires_at_ms),
    }


def _common(catalog: IcebergCatalog) -> dict[str, str]:
    """Branches share files, so clients are not let delete any; told so, they do not try."""
    return {**catalog.client_settings, "s3.delete-enabled": "false"}


def _by_prefix(grant: Grant, config: dict[str, str]) -> list[Json]:
    return [{"prefix": location, "config": config} for location in grant.locations]
