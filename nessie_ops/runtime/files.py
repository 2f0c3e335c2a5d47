"""Files that appear whole or not at all, also when several processes make the same one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from nessie_ops.errors import MachineNotReady


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Put `data` at `path`, creating its folders.  Raises MachineNotReady when the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise MachineNotReady(f"cannot write {path}: {error.strerror}") from error
