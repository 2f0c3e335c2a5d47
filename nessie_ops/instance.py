"""The Dagster instance of a home: its runs, their events and its settings, kept where the web server finds them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from nessie_ops.runtime.home import create_home, dagster_home, get_home


def open_instance(home: Path) -> dg.DagsterInstance:
    """The instance of `home`, whose folders are created where absent.  Use it as a context manager.

    The environment gets DAGSTER_HOME, for the processes that are started from here.
    """
    folder = dagster_home(create_home(home))
    os.environ["DAGSTER_HOME"] = str(folder)
    return dg.DagsterInstance.from_config(str(folder))


@contextmanager
def find_instance() -> Iterator[dg.DagsterInstance | None]:
    """The instance that DAGSTER_HOME, or the home, has; None when there is none, and then none is made."""
    folder = Path(os.environ.get("DAGSTER_HOME") or dagster_home(get_home()))
    if not (folder / "dagster.yaml").exists():
        yield None
        return
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        yield instance
