"""Where the platform keeps its data (the home) and what it can fetch or make again (the cache).

    <home>/catalog.db     the catalog's store         <cache>/jars/   the Iceberg runtime jar
    <home>/warehouse/     tables and views            <cache>/java/   the launcher of the bundled Java
    <home>/dagster/       DAGSTER_HOME                <cache>/cds/    class-data archives of the JVM
                                                      <cache>/bin/    an S3 server for the tests
                                                      <cache>/pyspark-*/   an older Spark for the tests

The home is never removed by the program; the cache may be at any time.  Knows no server and no schema.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from nessie_ops.errors import MachineNotReady
from nessie_ops.runtime.files import write_atomically

_DAGSTER_YAML = Path(__file__).with_name("dagster.yaml")


def get_home() -> Path:
    """The absolute path of `NESSIE_OPS_HOME`, by default `~/.nessie_ops`; it need not exist."""
    return to_folder("NESSIE_OPS_HOME", os.environ.get("NESSIE_OPS_HOME") or "~/.nessie_ops")


def get_cache() -> Path:
    """The absolute path of `NESSIE_OPS_CACHE`, by default `~/.cache/nessie_ops`; it need not exist."""
    return to_folder("NESSIE_OPS_CACHE", os.environ.get("NESSIE_OPS_CACHE") or "~/.cache/nessie_ops")


def create_home(home: Path) -> Path:
    """Create the folders of `home` and its dagster.yaml where absent; returns `home`.

    Raises MachineNotReady when it cannot.
    """
    _create(home, "warehouse", "dagster")
    settings = dagster_home(home) / _DAGSTER_YAML.name
    if not settings.exists():
        write_atomically(settings, _DAGSTER_YAML.read_bytes())
    return home


def create_cache(cache: Path, *folders: str) -> Path:
    """Create `folders` of `cache` where absent; returns `cache`.  Raises MachineNotReady when it cannot."""
    return _create(cache, *folders)


def store_url(home: Path) -> str:
    """The SQLAlchemy URL of the catalog's store in `home`."""
    return f"sqlite:///{home / 'catalog.db'}"


def warehouse_url(home: Path) -> str:
    """The URL of the warehouse in `home`, unquoted, as Hadoop and fsspec read it."""
    return f"file://{home / 'warehouse'}"


def allowed_locations(env: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The URLs in `NESSIE_OPS_ALLOWED_LOCATIONS`, in order: folders and buckets that tables may lie in besides."""
    return tuple(text.strip() for text in env.get("NESSIE_OPS_ALLOWED_LOCATIONS", "").split(",") if text.strip())


def dagster_home(home: Path) -> Path:
    """The DAGSTER_HOME that belongs to `home`."""
    return home / "dagster"


def to_folder(field: str, text: str) -> Path:
    """The folder that a person named in `field`, as an absolute path; MachineNotReady when no URL can hold it."""
    path = Path(text).expanduser().absolute()
    # `?` starts the options of a SQLAlchemy URL, `#` the fragment of a warehouse URL; SQLAlchemy decodes `%20`,
    # Hadoop does not; a backslash divides folders for some readers and not for others.
    if set(str(path)) & set("?#%\\"):
        raise MachineNotReady(f"{field}: the path {path} holds '?', '#', '%' or a backslash; choose another folder")
    return path.resolve() if ".." in path.parts else path


def _create(root: Path, *folders: str) -> Path:
    try:
        for folder in folders:
            (root / folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineNotReady(f"cannot create {error.filename}: {error.strerror}") from error
    return root
