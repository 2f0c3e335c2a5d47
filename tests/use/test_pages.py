"""The pages of docs/use are true: what they tell people to type is typed, and their pictures are taken anew."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.use.pages import IMAGES, PAGES, shown
from tests.use.screenshots import take_pictures
from tests.use.site import HEIGHT, WIDTH

MAX_BYTES, MIN_BYTES = 165_000, 8_000  # an empty page of this size has fewer


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG."""
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    return width, height


def check_pictures(folder: Path) -> None:
    """Exactly those that the pages show, neither empty nor large."""
    pictures = {picture.name: picture for picture in folder.iterdir()}
    assert set(pictures) == shown()
    for name, picture in pictures.items():
        width, height = size_of(picture)
        assert 400 <= width <= WIDTH and 150 <= height <= HEIGHT, (name, width, height)
        assert MIN_BYTES < picture.stat().st_size < MAX_BYTES, name


def test_pictures_are_there_and_shown() -> None:
    check_pictures(IMAGES)


def test_each_page_is_in_the_index() -> None:
    index = (PAGES / "README.md").read_text()
    pages = [page for page in PAGES.glob("*.md") if page.name != "README.md"]
    assert [page.name for page in pages if f"]({page.name})" not in index] == []
    assert "](docs/use/README.md)" in (PAGES.parents[1] / "README.md").read_text()


@pytest.mark.browser
@pytest.mark.spark
@pytest.mark.timeout(1800)  # a dozen runs, one after the other: minutes on a quiet machine, a quarter of an hour else
def test_what_the_pages_tell_happens(home: Path, source: Path, tmp_path: Path) -> None:
    images = tmp_path / "images"
    take_pictures(home, source, images)
    check_pictures(images)
