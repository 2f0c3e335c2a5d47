"""A small file system that a test can fill to the last byte and empty again."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PIECE = 4096


class SmallDisk:
    """A file system mounted at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no byte free."""
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            for size in (1 << 20, PIECE, 1):
                with suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass
        with pytest.raises(OSError) as caught:
            (self.folder / "more").write_bytes(b"x" * PIECE)
        assert caught.value.errno == errno.ENOSPC
        (self.folder / "more").unlink(missing_ok=True)

    def free(self) -> None:
        self._filler.unlink()


@contextmanager
def mounted(size: str, owner: int = 0) -> Iterator[SmallDisk]:
    """A new disk; where mounting is not allowed the test is left out, and the summary says so."""
    with tempfile.TemporaryDirectory(prefix="nessie_ops_disk_") as name:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},uid={owner}", "tmpfs", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"a small disk needs the right to mount one: {done.stderr.strip()}")
        os.chmod(name, 0o700)
        try:
            yield SmallDisk(Path(name))
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)
