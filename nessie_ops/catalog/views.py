"""Views: create, load, replace, drop, rename and register Iceberg views at any reference.

As tables, with metadata that is plain JSON here.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from nessie_ops.catalog.lake import ANONYMOUS, Lake, again_when_overtaken, missing, require_namespace
from nessie_ops.catalog.listing import MAX_NAMES, Names, list_children
from nessie_ops.catalog.metadata import metadata_location
from nessie_ops.catalog.outlines import check_view, folders_of
from nessie_ops.catalog.requests import CreateView, Json
from nessie_ops.catalog.tables import Change, Loaded
from nessie_ops.catalog.viewmetadata import apply_view_updates, check_view_requirements, new_view
from nessie_ops.catalog.viewshapes import check_view_metadata
from nessie_ops.errors import BadRequest, MetadataUnavailable, NoSuchView
from nessie_ops.model import (
    Branch,
    CommitHash,
    Content,
    ContentKey,
    ContentType,
    Delete,
    IcebergView,
    NewCommit,
    Operation,
    Put,
)


class Views:
    """The Iceberg views of a catalog, at any reference."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def list_names(
        self, at: CommitHash, namespace: ContentKey, *, after: str | None = None, limit: int = MAX_NAMES
    ) -> Names:
        """Names of the views directly in `namespace`; NamespaceNotFound."""
        require_namespace(self._lake.get(at, namespace), namespace)
        return list_children(self._lake.store, at, namespace, ContentType.ICEBERG_VIEW, after, limit)

    def exists(self, ref: str, key: ContentKey) -> bool:
        return isinstance(self._lake.get(self._lake.resolve(ref), key), IcebergView)

    def load(self, ref: str, key: ContentKey) -> Loaded:
        """A view's metadata; NoSuchView."""
        content = require_view(self._lake.get(self._lake.resolve(ref), key), key)
        return Loaded(content.metadata_location, self._lake.files.read(content.metadata_location, check_view))

    def create(self, ref: str, namespace: ContentKey, request: CreateView, meta: NewCommit = ANONYMOUS) -> Loaded:
        """Create a view; NameTaken, NamespaceNotFound, BadRequest."""
        branch = self._lake.get_branch(ref)
        key = namespace.child(request.name).validated()
        location = self._lake.new_location(branch.hash, key, ContentType.ICEBERG_VIEW, request.location)
        properties = request.properties or {}
        metadata = new_view(location, self._lake.new_id(), request.schema, request.view_version, properties)
        return self._write(branch, key, metadata, None, UNSET, f"create view {key}", meta)

    @again_when_overtaken
    def commit(self, ref: str, change: Change, meta: NewCommit = ANONYMOUS) -> Loaded:
        """Apply updates, such as a new version; the view afterwards.  CommitFailed, NoSuchView, BadRequest."""
        branch, key = self._lake.get_branch(ref), change.key
        content = require_view(self._lake.get(branch.hash, key), key)
        raw = self._lake.files.read(content.metadata_location, check_view)
        before: Json = msgspec.json.decode(raw)
        check_view_requirements(before, change.requirements, str(key))
        after = apply_view_updates(before, change.updates, now_ms=int(self._lake.clock().timestamp() * 1000))
        if after == before:
            return Loaded(content.metadata_location, raw)
        if after["location"] != before["location"]:
            after["location"] = self._lake.files.warehouse.check(after["location"], "location")
        replaced = after["current-version-id"] != before["current-version-id"]
        message = f"{'replace' if replaced else 'alter'} view {key}"
        return self._write(branch, key, after, content.metadata_location, content.id, message, meta)

    def register(self, ref: str, key: ContentKey, location: str, meta: NewCommit = ANONYMOUS) -> Loaded:
        """Adopt a view whose metadata file lies in the warehouse; NameTaken, NamespaceNotFound, BadRequest."""
        branch = self._lake.get_branch(ref)
        location = self._lake.files.warehouse.check(location, "metadata-location")
        self._lake.get_free_place(branch.hash, key, ContentType.ICEBERG_VIEW)
        try:
            raw = self._lake.files.read_foreign(location)
            check_view(raw, location, self._lake.files.warehouse)
            metadata: Json = msgspec.json.decode(raw, type=Json)
            check_view_metadata(metadata, "metadata-location")
            apply_view_updates(metadata, (), now_ms=0)
            content = _content_of(metadata, location, UNSET)
        except (MetadataUnavailable, msgspec.DecodeError, KeyError, TypeError) as error:
            raise BadRequest(f"metadata-location: {location} is not valid Iceberg view metadata: {error}") from error
        registered = Loaded(location, raw)
        self._lake.commit(branch, f"register view {key} from {location}", [Put(key, content)], meta, registered)
        return registered

    @again_when_overtaken
    def drop(self, ref: str, key: ContentKey, meta: NewCommit = ANONYMOUS) -> None:
        """Remove a view from a branch; NoSuchView."""
        branch = self._lake.get_branch(ref)
        require_view(self._lake.get(branch.hash, key), key)
        self._lake.commit(branch, f"drop view {key}", [Delete(key)], meta)

    @again_when_overtaken
    def rename(self, ref: str, source: ContentKey, target: ContentKey, meta: NewCommit = ANONYMOUS) -> None:
        """Give a view another name or namespace.  NoSuchView, NameTaken, NamespaceNotFound."""
        branch = self._lake.get_branch(ref)
        content = require_view(self._lake.get(branch.hash, source), source)
        self._lake.check_target(branch.hash, source, target)
        operations: list[Operation] = [Delete(source), Put(target, content)]
        self._lake.commit(branch, f"rename view {source} to {target}", operations, meta)

    def _write(
        self,
        branch: Branch,
        key: ContentKey,
        metadata: Json,
        previous: str | None,
        content_id: str | UnsetType,
        message: str,
        meta: NewCommit,
    ) -> Loaded:
        location = metadata_location(metadata["location"], metadata["properties"], previous, self._lake.new_id())
        raw = msgspec.json.encode(metadata)
        check_view(raw, str(key), self._lake.files.warehouse)
        self._lake.files.check_links(folders_of(metadata["location"], metadata["properties"]))
        loaded = Loaded(location, raw)
        with self._lake.new_files() as write:
            write(location, raw, check_view)
            put = Put(key, _content_of(metadata, location, content_id))
            self._lake.commit(branch, message, [put], meta, loaded)
        return loaded


def _content_of(metadata: Json, location: str, content_id: str | UnsetType) -> IcebergView:
    current = metadata["current-version-id"]
    version = next(version for version in metadata["versions"] if version["version-id"] == current)
    return IcebergView(id=content_id, metadata_location=location, version_id=current, schema_id=version["schema-id"])


def require_view(found: Content | None, key: ContentKey) -> IcebergView:
    """`found`, if it is an Iceberg view; else NoSuchView."""
    if isinstance(found, IcebergView):
        return found
    raise NoSuchView(missing(ContentType.ICEBERG_VIEW, found, key), key)
