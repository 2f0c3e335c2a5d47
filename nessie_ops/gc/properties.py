"""Iceberg's FileIO properties, as options and catalogs give them, to the stores that a collection opens.

What is not given is found as the catalog's server finds it: variables of the environment, and the libraries' own
chains of credentials.  Never prints a value.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from nessie_ops.catalog.stores import S3, check_scheme
from nessie_ops.errors import BadRequest
from nessie_ops.gc.s3 import Access, S3Files
from nessie_ops.gc.storage import OtherFiles, Storage, Stores

_S3 = {
    "s3.endpoint": "endpoint",
    "s3.path-style-access": "path_style",
    "client.region": "region",
    "s3.region": "region",
}
_KEYS = {"s3.access-key-id": "key_id", "s3.secret-access-key": "secret", "s3.session-token": "token"}
_VARIABLES = {
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.session-token": "AWS_SESSION_TOKEN",
}
_OTHER = {  # by scheme: properties and what fsspec calls them
    "gs": {"gcs.project-id": "project", "gcs.oauth2.token": "token", "gcs.service.host": "endpoint_url"},
    "abfs": {
        "adls.auth.shared-key.account.name": "account_name",
        "adls.auth.shared-key.account.key": "account_key",
        "adls.connection-string": "connection_string",
    },
}
_WITHOUT_MEANING = {"io-impl", "s3.delete.batch-size", "s3.file-io-impl"}  # the scheme decides; batches are full


def open_stores(properties: Mapping[str, str]) -> Stores:
    """The stores that these properties reach; BadRequest when they cannot be read, MachineNotReady for a package."""
    keys = {field: properties[name] for name, field in _KEYS.items() if properties.get(name)}
    if ("key_id" in keys) != ("secret" in keys):
        raise BadRequest("iceberg: give s3.access-key-id and s3.secret-access-key together.")
    where = S3.from_env({field: properties[name] for name, field in _S3.items() if properties.get(name)})
    by_scheme: dict[str, Storage] = {"s3": S3Files(Access(s3=where, **keys))}
    for scheme, names in _OTHER.items():
        options: dict[str, Any] = {field: properties[name] for name, field in names.items() if properties.get(name)}
        if options:
            check_scheme(f"{scheme}://", "iceberg")
            by_scheme[scheme] = OtherFiles(scheme, **options)
    return Stores(by_scheme)


class Opened(NamedTuple):
    """Opens the same stores on any machine: what this one's environment says of S3 goes with the properties."""

    properties: tuple[tuple[str, str], ...]

    @classmethod
    def here(cls, properties: Mapping[str, str], env: Mapping[str, str] = os.environ) -> Self:
        """Keys of the environment go, too, if there are no others; those of a role are left to each machine."""
        where = S3.from_env({field: properties[name] for name, field in _S3.items() if properties.get(name)}, env)
        found = {"s3.endpoint": where.endpoint, "client.region": where.region}
        found["s3.path-style-access"] = "true" if where.path_style else ""
        if not any(properties.get(name) for name in _KEYS):
            found |= {name: env.get(variable, "") for name, variable in _VARIABLES.items()}
        every = {**properties, **{name: text for name, text in found.items() if text}}
        return cls(tuple(sorted(every.items())))

    def __call__(self) -> Stores:
        return open_stores(dict(self.properties))

    def __repr__(self) -> str:
        return "Opened()"  # never a value


def list_unknown(names: Iterable[str]) -> list[str]:
    """Those properties that change nothing here."""
    known = {*_S3, *_KEYS, *_WITHOUT_MEANING}.union(*_OTHER.values())
    return [name for name in names if name not in known]
