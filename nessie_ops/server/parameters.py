"""Types of the parameters that the framework fills in for handlers."""

from __future__ import annotations

from litestar.di import NamedDependency
from litestar.params import FromPath, RawBody

from nessie_ops.events import Webhooks
from nessie_ops.mergerequests import MergeRequests
from nessie_ops.server.live import Live
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore

Store = NamedDependency[VersionStore]
Hooks = NamedDependency[Webhooks]
Merging = NamedDependency[MergeRequests]
Transacting = NamedDependency[Transactions]
LiveStore = NamedDependency[Live]
Segment = FromPath[str]  # a path segment as `paths.restore` wants it
Body = RawBody

__all__ = ["Body", "Hooks", "LiveStore", "Merging", "Segment", "Store", "Transacting"]
