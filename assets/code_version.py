"""Which code wrote a commit: the version of the package and, in a checkout, the Git revision."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def get_code_version() -> str:
    """Such as `0.1.0+g1a2b3c4` or, with changes that are not committed, `0.1.0+g1a2b3c4-dirty`."""
    try:
        package = version("nessie-ops")
    except PackageNotFoundError:
        package = "source"
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():  # else an enclosing repository would be taken for ours
        return package
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        revision = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return package
    return f"{package}+g{revision}"
