"""Iceberg semantics over the kernel: namespaces, tables and views, and their metadata files.  Knows no HTTP."""

from nessie_ops.catalog.catalog import IcebergCatalog
from nessie_ops.catalog.files import is_immutable
from nessie_ops.catalog.listing import MAX_NAMES, Names
from nessie_ops.catalog.stores import AWS, S3
from nessie_ops.catalog.tables import Change, Loaded

__all__ = ["AWS", "MAX_NAMES", "S3", "Change", "IcebergCatalog", "Loaded", "Names", "is_immutable"]
