"""Plain Iceberg catalogs as sources: `--catalog` and `--catalog-option`, opened by PyIceberg.

A live set remembers the catalog's name and address alone, and no message has a value that may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nessie_ops.errors import BadRequest, MachineNotReady, StoreUnavailable
from nessie_ops.gc.plain import PlainCatalog
from nessie_ops.gc.properties import list_unknown

PREFIX = "iceberg:"  # of the names of such sources in live sets
_USER = re.compile(r"://[^/]*@")
_OPEN = {"type", "uri", "warehouse", "py-catalog-impl", "client.region", "s3.endpoint", "s3.region"}


class Plain(NamedTuple):
    """An opened catalog; `files` are its properties that say how files are reached."""

    name: str
    source: PlainCatalog
    files: dict[str, str]


def name_in(marked: str) -> str:
    """The name of the catalog that a live set was marked from; empty when that was none of these."""
    return marked.removeprefix(PREFIX).partition(" (")[0] if marked.startswith(PREFIX) else ""


@contextmanager
def open_plain(name: str, options: Mapping[str, str]) -> Iterator[Plain]:
    """The catalog that PyIceberg knows by this name; BadRequest, StoreUnavailable, MachineNotReady for a package."""
    from pyiceberg.catalog import load_catalog  # here, since it reads its configuration from files and the environment
    from pyiceberg.exceptions import NotInstalledError

    def explain(error: Exception) -> str:
        return mask(f"{type(error).__name__}: {error}", {**options, **found})

    found: dict[str, str] = {}
    try:
        catalog: Any = load_catalog(name, **options)
    except (ValueError, KeyError) as error:
        hint = f"~/.pyiceberg.yaml or PYICEBERG_CATALOG__{name.upper()}__URI"
        raise BadRequest(f"catalog: {name}: {explain(error)}; give --catalog-option type=…,uri=…, {hint}.") from None
    except (ImportError, NotInstalledError) as error:
        raise MachineNotReady(f"catalog: {name}: {explain(error)}") from None
    except Exception as error:  # catalogs raise the exceptions of their libraries
        raise StoreUnavailable(f"catalog: {name} cannot be opened: {explain(error)}") from error
    found |= {key: str(value) for key, value in catalog.properties.items()}
    try:
        address = _strip(found.get("uri") or found.get("warehouse", ""))
        of_files = {key: value for key, value in found.items() if not list_unknown([key])}
        yield Plain(f"{PREFIX}{name}" + (f" ({address})" if address else ""), PlainCatalog(catalog, explain), of_files)
    finally:
        catalog.close()


def mask(text: str, properties: Mapping[str, str]) -> str:
    """The first line of a text, without what may be a secret in it."""
    line = text.strip().partition("\n")[0][:500]
    for name, value in properties.items():
        secret = _password(value) if name in _OPEN else value
        if len(secret) > 3:
            line = line.replace(secret, "…")
    return line


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def _strip(url: str) -> str:
    """A URL without user, password and query."""
    return _USER.sub("://", url).partition("?")[0].partition("#")[0]
