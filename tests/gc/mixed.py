"""A lake whose locations are spelled in every way that means one bucket, with every form of metadata, that remembers
who held which table until when.  Its files are in a dictionary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from nessie_ops.gc.places import place_of
from nessie_ops.gc.storage import Deleted, ListedFile, Stores
from nessie_ops.model import CommitHash, Delete, NewCommit, Put, ReferenceType
from tests.gc.lake import HOUR, Lake

BUCKET = "s3://lake"


def key_of(location: str) -> str:
    """The object that a location names, however its scheme is spelled."""
    return "s3://" + location.partition("://")[2]


class Bucket:
    """Objects by their keys, with the times when they were changed."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, datetime]] = {}

    def physical(self, location: str) -> str:
        return place_of(location)

    def base(self, location: str) -> str:
        return key_of(location).rstrip("/")

    def read(self, location: str) -> bytes:
        found = self.files.get(key_of(location))
        if found is None:
            raise FileNotFoundError(location)
        return found[0]

    def list_files(self, base: str) -> Iterator[ListedFile]:
        for key in sorted(key for key in self.files if key.startswith(base + "/")):
            yield self._listed(key)

    def stat(self, location: str) -> ListedFile | None:
        return self._listed(key_of(location)) if key_of(location) in self.files else None

    def is_gone(self, location: str) -> bool:
        return key_of(location) not in self.files

    def delete(self, locations: Sequence[str]) -> list[Deleted]:
        found = [(location, self.files.pop(key_of(location), None)) for location in locations]
        return [Deleted(location, "deleted" if file else "gone") for location, file in found]

    def _listed(self, key: str) -> ListedFile:
        data, changed = self.files[key]
        return ListedFile(key, len(data), int(changed.timestamp()) * 1_000_000)


class MixedLake(Lake):
    """`held` is until when each content was visible on some reference, `last_put` where its last version lies."""

    is_varied = True

    def __post_init__(self) -> None:
        self.bucket = Bucket()
        super().__post_init__()
        self.root = BUCKET
        self.stores = Stores({"s3": self.bucket})
        self.held: dict[str, datetime] = {}
        self.last_put: dict[str, str] = {}
        self._visible: dict[CommitHash, set[str]] = {}

    def close(self) -> None:
        self.versions.close()

    def write(self, location: str, data: bytes = b"x") -> str:
        self.bucket.files[key_of(location)] = (data, self.now)
        return location

    def list_files(self) -> dict[str, datetime]:
        return {key: changed for key, (_, changed) in self.bucket.files.items()}

    def commit(self, branch: str, *operations: Put | Delete) -> None:
        self.now += HOUR
        self.look()
        head = self.versions.get_reference(branch).hash
        made = self.versions.commit(branch, head, NewCommit(message="m", committer="c"), operations)
        keys = [operation.key for operation in operations if isinstance(operation, Put)]
        for content in self.versions.get_contents(made.target_branch.hash, keys).values():
            self.last_put[str(content.id)] = self.needs[content.metadata_location].location  # type: ignore[union-attr]

    def look(self) -> None:
        """Note which contents are visible now."""
        for reference in self.versions.list_references():
            if reference.hash not in self._visible:
                rows = self.versions.list_entries(reference.hash)
                self._visible[reference.hash] = {str(row.content_id) for row in rows}
            self.held.update(dict.fromkeys(self._visible[reference.hash], self.now))

    def drop_reference(self, name: str) -> None:
        self.now += HOUR
        self.look()
        self.versions.delete_reference(name, None)

    def assign(self, name: str, back: int) -> None:
        """Move a branch to an earlier commit of its own."""
        log = self.versions.list_log(self.versions.get_reference(name).hash, limit=back + 1)
        if log:
            self.now += HOUR
            self.look()
            self.versions.assign_reference(name, None, log[-1].commit_meta.hash)

    def tag(self, kind: ReferenceType, target: CommitHash) -> None:
        self.look()
        self.versions.create_reference(kind, f"{kind.lower()}{next(self.ids)}", target)
