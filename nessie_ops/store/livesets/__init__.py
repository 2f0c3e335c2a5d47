"""The live-set database of garbage collection."""

from nessie_ops.store.livesets.livesets import (
    BaseRecord,
    FileRecord,
    ListingRecord,
    LiveSetRecord,
    LiveSets,
    ReferenceRecord,
    VersionRecord,
    digest_of,
)

__all__ = [
    "BaseRecord",
    "FileRecord",
    "ListingRecord",
    "LiveSetRecord",
    "LiveSets",
    "ReferenceRecord",
    "VersionRecord",
    "digest_of",
]
