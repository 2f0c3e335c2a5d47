"""From options to the parts of a run: the live-set database, the catalog, the files, and the live set.

What cannot be read of the options is a usage error: exit code 2.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from uuid import uuid4

import typer

from nessie_ops.catalog.catalog import IcebergCatalog
from nessie_ops.cli.connection import find_store
from nessie_ops.cli.gc.options import Chosen, Database, Files, Origin
from nessie_ops.cli.gc.plain import name_in, open_plain
from nessie_ops.cli.progress import Progress
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, NessieOpsError, StoreUnavailable
from nessie_ops.gc.identify import Context
from nessie_ops.gc.lease import name_run
from nessie_ops.gc.properties import list_unknown, open_stores
from nessie_ops.gc.source import Catalog, Source
from nessie_ops.gc.storage import Stores
from nessie_ops.model import GarbageCollectorConfig
from nessie_ops.runtime.home import allowed_locations, get_home, warehouse_url
from nessie_ops.store.dialects import parse_url
from nessie_ops.store.livesets import LiveSets
from nessie_ops.store.livesets.jdbc import to_target
from nessie_ops.versioning import VersionStore

_TOKEN = re.compile(r"[!-~]+")
SCHEMAS = ("CREATE", "DROP_AND_CREATE", "CREATE_IF_NOT_EXISTS")


@contextmanager
def usage() -> Iterator[None]:
    """A BadRequest about options is a usage error."""
    try:
        yield
    except BadRequest as error:
        raise typer.BadParameter(error.message) from None


def warn(text: str) -> None:
    print(f"nessie-ops gc: {text}", file=sys.stderr)


def split_pairs(texts: Iterable[str] | None, field: str) -> dict[str, str]:
    """The pairs of `k=v,k=v` options; a comma that no pair follows is part of a value."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        last = ""
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if equals and name:
                pairs[name], last = value, name
            elif last:
                pairs[last] += f",{part}"
            elif part:
                raise typer.BadParameter(f"{field}: '{part[:40]}' is not NAME=VALUE.")
    return pairs


# -- live sets --------------------------------------------------------------------------------


@contextmanager
def open_sets(database: Database, *, may_be_in_memory: bool = False) -> Iterator[LiveSets]:
    """The live-set database, with its tables."""
    sets = _open_sets(database, may_be_in_memory)
    try:
        prepare(sets, database)
        yield sets
    finally:
        sets.close()


def prepare(sets: LiveSets, database: Database, *, default: str = "") -> None:
    """Make the tables as --jdbc-schema or `default` says; those of the home's own database are made anyway."""
    schema = (database.jdbc_schema or default).upper()
    if schema and schema not in SCHEMAS:
        raise typer.BadParameter(f"--jdbc-schema: give {', '.join(SCHEMAS)}.")
    if schema:
        sets.create_tables(drop=schema == "DROP_AND_CREATE", must_be_new=schema == "CREATE")
    elif database.jdbc_url:
        sets.check_tables()
    else:
        sets.create_tables()


def _open_sets(database: Database, may_be_in_memory: bool) -> LiveSets:
    if database.inmemory and (not may_be_in_memory or database.jdbc_url):
        raise typer.BadParameter("--inmemory: works with `gc` alone, and not together with --jdbc-url.")
    if database.inmemory:
        return LiveSets.open("sqlite://", create=False)
    if not database.jdbc_url:
        if database.jdbc:
            raise typer.BadParameter("--jdbc: give --jdbc-url, too.")
        return LiveSets.open(f"sqlite:///{get_home() / 'gc.db'}", create=False)
    return LiveSets.open(find_url(database), create=False)


def find_url(database: Database) -> str:
    """The SQLAlchemy URL of --jdbc-url and its companions."""
    properties = split_pairs(database.jdbc_properties, "--jdbc-properties")
    with usage():
        target = to_target(database.jdbc_url, database.jdbc_user, database.jdbc_password, properties)
        parse_url(target.url)
    for name in target.ignored:
        warn(f"the driver's parameter {name} has no meaning here")
    return target.url


def choose(chosen: Chosen) -> str:
    """The id that -l or -L gives."""
    if bool(chosen.live_set_id) == bool(chosen.read_live_set_id_from):
        raise typer.BadParameter("give --live-set-id (-l) or --read-live-set-id-from (-L).")
    if chosen.live_set_id:
        return chosen.live_set_id
    try:
        lines = Path(chosen.read_live_set_id_from).read_text().splitlines()
    except OSError as error:
        raise typer.BadParameter(f"--read-live-set-id-from: {chosen.read_live_set_id_from}: {error.strerror}") from None
    if not lines or not lines[0].strip():
        raise BadRequest(f"read-live-set-id-from: {chosen.read_live_set_id_from} is empty: no mark has begun.")
    return lines[0].strip()


# -- the catalog ------------------------------------------------------------------------------


class Opened(NamedTuple):
    """A catalog; `name` is how a live set remembers it, without a password; `versions` is our own store's.

    `files` are properties of a plain catalog's that say how its files are reached.
    """

    name: str
    source: Source
    config: GarbageCollectorConfig | None
    versions: VersionStore | None = None
    files: Mapping[str, str] = {}


@contextmanager
def open_source(origin: Origin, marked: str = "") -> Iterator[Opened]:
    """The catalog that the options name, or that a live set was `marked` from; BadRequest when they differ."""
    _check_origin(origin)
    is_named = origin.uri or origin.store or origin.catalog
    plain_name = origin.catalog or ("" if is_named else name_in(marked))
    if plain_name:
        with _open_plain(plain_name, origin, marked) as found:
            yield found
        return
    uri = origin.uri or (marked if marked.startswith(("http://", "https://")) and not is_named else "")
    if uri:
        with usage():
            client = _open_client(uri, split_pairs(origin.nessie_option, "--nessie-option"))
        with client:
            _check_same(uri, marked)
            yield Opened(uri, Catalog(client), _read_config(client))
        return
    url = find_store(origin.store or os.environ.get("NESSIE_OPS_STORE", ""))
    name = parse_url(url)[0].render_as_string(hide_password=True)
    _check_same(name, marked)
    versions = VersionStore.open(url, create=False)
    try:
        yield Opened(name, Catalog(versions), _read_config(versions), versions)
    finally:
        versions.close()


def _check_origin(origin: Origin) -> None:
    given = [name for name, value in (("--uri", origin.uri), ("--store", origin.store), ("--catalog", origin.catalog))
             if value]  # fmt: skip
    if len(given) > 1:
        raise typer.BadParameter(f"give {' or '.join(given)}, not both.")
    if origin.catalog_option and (origin.uri or origin.store):
        raise typer.BadParameter("--catalog-option: goes with --catalog alone.")


@contextmanager
def _open_plain(name: str, origin: Origin, marked: str) -> Iterator[Opened]:
    options = split_pairs(origin.catalog_option, "--catalog-option")
    with ExitStack() as stack:
        with usage():
            plain = stack.enter_context(open_plain(name, options))
        _check_same(plain.name, marked)
        yield Opened(plain.name, plain.source, None, files=plain.files)


def _check_same(name: str, marked: str) -> None:
    if marked and name.rstrip("/") != marked.rstrip("/"):
        raise BadRequest(
            f"The live set was marked from {marked}, not from {name}: give that by --uri, --store or --catalog."
        )


def _read_config(catalog: Any) -> GarbageCollectorConfig | None:
    try:
        found = catalog.list_repository_configs(["GARBAGE_COLLECTOR"])
    except StoreUnavailable:
        raise
    except NessieOpsError as error:  # a server that knows no such thing
        warn(f"the repository's configuration is not known: {error.message}")
        return None
    return found[0] if found else None


def _open_client(uri: str, options: Mapping[str, str]) -> NessieClient:
    kind = options.get("nessie.authentication.type", "NONE").upper()
    token = options.get("nessie.authentication.token", "")
    headers = {}
    if kind == "BEARER":
        if not _TOKEN.fullmatch(token):
            raise BadRequest("nessie-option: BEARER needs nessie.authentication.token, in ASCII and without blanks.")
        headers["Authorization"] = f"Bearer {token}"
    elif kind == "BASIC":
        pair = (
            f"{options.get('nessie.authentication.username', '')}:{options.get('nessie.authentication.password', '')}"
        )
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif kind != "NONE":
        raise BadRequest(
            f"nessie-option: authentication {kind[:20]} is not supported; get a token by other means, and give it by "
            "nessie.authentication.type=BEARER,nessie.authentication.token=…; or use BASIC."
        )
    timeouts = {
        argument: _to_seconds(name, options[name])
        for name, argument in (
            ("nessie.connect-timeout", "connect_timeout_s"),
            ("nessie.read-timeout", "read_timeout_s"),
        )
        if name in options
    }
    known = ("nessie.authentication.", "nessie.connect-timeout", "nessie.read-timeout", "nessie.uri")
    for name in options:
        if not name.startswith(known):
            warn(f"the option {name} of the Nessie client has no meaning here")
    if uri.rstrip("/").endswith("/api/v1"):
        raise BadRequest("uri: version 1 of the API is not enough; give the URI that ends with /api/v2.")
    return NessieClient(uri, headers=headers, **timeouts)


def _to_seconds(name: str, milliseconds: str) -> float:
    try:
        return int(milliseconds) / 1000
    except ValueError:
        raise BadRequest(f"nessie-option: {name}: give milliseconds.") from None


def open_tables(opened: Opened, warehouse: str) -> IcebergCatalog | None:
    """The tables of a catalog for writing; None for another's server."""
    if opened.versions is None:
        return None
    with usage():
        place = warehouse or os.environ.get("NESSIE_OPS_WAREHOUSE") or warehouse_url(get_home())
        return IcebergCatalog(opened.versions, place, allowed_locations=allowed_locations())


# -- files and the run ------------------------------------------------------------------------


def file_properties(files: Files, opened: Opened) -> dict[str, str]:
    """What -I says of stores, and else a plain catalog's own properties."""
    return {**opened.files, **split_pairs(files.iceberg, "--iceberg")}


def open_files(files: Files, opened: Opened) -> Stores:
    """The stores that these properties reach."""
    for name in list_unknown(split_pairs(files.iceberg, "--iceberg")):
        warn(f"the Iceberg property {name} has no meaning here")
    if files.hadoop:
        warn("Hadoop is not used: --hadoop has no meaning here; give -I instead")
    with usage():
        return open_stores(file_properties(files, opened))


def make_context() -> Context:
    """The clock, a name of its own, and progress on standard error."""
    return Context(lambda: datetime.now(UTC), name_run(uuid4().hex), Progress())


@contextmanager
def resumable(how: str) -> Iterator[None]:
    """Say how to go on when the work is interrupted, or ends because something cannot be reached."""
    try:
        yield
    except (KeyboardInterrupt, StoreUnavailable, OSError):
        warn(f"stopped; {how}")
        raise


def report_folder(text: str) -> Path:
    """The folder for reports, made if need be; BadRequest when it cannot be written, so ask for it before the work."""
    folder = Path(text).expanduser() if text else get_home() / "gc-reports"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise BadRequest(f"report-dir: {folder} cannot be written: {error.strerror}.") from None
