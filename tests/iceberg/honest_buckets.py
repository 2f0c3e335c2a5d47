"""An S3 server that checks signatures, where there is one: versitygw, which is built with Go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nessie_ops.runtime.home import get_cache
from tests.buckets import Buckets, versitygw


@contextmanager
def honest(folder: Path) -> Iterator[Buckets]:
    """A running server; where none can be had the test is left out, and the summary says so."""
    named = os.environ.get("NESSIE_OPS_TEST_S3") or shutil.which("versitygw") or get_cache() / "bin" / "versitygw"
    if not Path(named).is_file():
        pytest.skip("signatures of S3 are checked by versitygw alone: install Go, or name it in NESSIE_OPS_TEST_S3")
    with versitygw(Path(named), folder) as server:
        yield server
