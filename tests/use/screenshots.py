"""`python -m tests.use.screenshots [FOLDER]`: take the pictures of docs/use again, by doing what its pages tell."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from nessie_ops.runtime.home import dagster_home
from tests.dagster.deliveries import copy_first_months
from tests.use.pages import IMAGES
from tests.use.site import open_site
from tests.use.story import tell


def take_pictures(home: Path, source: Path, images: Path) -> None:
    """All of them, in a home without data that must be that of the environment; an AssertionError says what differs."""
    with open_site(home, source, images) as site:
        tell(site)


def main(images: Path) -> None:
    """Take them in a home of its own, with deliveries of three days of each month."""
    with tempfile.TemporaryDirectory() as name:
        home, source = Path(name) / "home", Path(name) / "source"
        os.environ |= {"NESSIE_OPS_HOME": str(home), "DAGSTER_HOME": str(dagster_home(home))}
        copy_first_months(source)
        take_pictures(home, source, images)
    print(f"{len(list(images.glob('*.png')))} pictures in {images}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
