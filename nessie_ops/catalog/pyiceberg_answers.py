"""What the catalog answers as PyIceberg's own kinds of things."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Identifier
from pyiceberg.view import View
from pyiceberg.view.metadata import ViewMetadata

from nessie_ops.catalog.listing import Names
from nessie_ops.catalog.tables import Loaded
from nessie_ops.model import ContentKey


def metadata_of(loaded: Loaded) -> TableMetadata:
    """Metadata as PyIceberg has it."""
    return TableMetadataUtil.parse_raw(loaded.metadata.decode())


def to_view(identifier: Identifier, loaded: Loaded) -> View:
    """A view as PyIceberg has it."""
    return View(identifier, ViewMetadata.model_validate_json(loaded.metadata))


def list_all(parent: ContentKey | None, list_page: Callable[[str | None], Names]) -> list[Identifier]:
    """All pages of a listing, each name with those above it."""
    above = parent.elements if parent else ()
    page = list_page(None)
    names = list(page.names)
    while page.more:
        page = list_page(names[-1])
        names += page.names
    return [(*above, name) for name in names]
