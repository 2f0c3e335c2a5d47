"""The kernel: Git semantics over a Store.  Knows neither Iceberg nor HTTP."""

from nessie_ops.versioning.history import Divergence
from nessie_ops.versioning.reader import MAX_PAGE
from nessie_ops.versioning.references import RepositoryInfo
from nessie_ops.versioning.versionstore import DEFAULT_BRANCH, VersionStore

__all__ = ["DEFAULT_BRANCH", "MAX_PAGE", "Divergence", "RepositoryInfo", "VersionStore"]
