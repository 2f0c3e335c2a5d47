"""The Dagster instance of a home: its runs, their events and its settings, kept where the web server finds them."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from nessie_ops.runtime.home import create_home, dagster_home


def open_instance(home: Path) -> dg.DagsterInstance:
    """The instance of `home`, whose folders are created where absent.  Use it as a context manager.

    The environment gets DAGSTER_HOME, for the processes that are started from here.
    """
    folder = dagster_home(create_home(home))
    os.environ["DAGSTER_HOME"] = str(folder)
    return dg.DagsterInstance.from_config(str(folder))
