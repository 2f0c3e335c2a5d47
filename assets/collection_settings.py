"""What a person may configure of a collection's assets, and the settings of mark and sweep that this comes to.

Names and meanings are those of the options of `nessie-ops gc`.
"""

import dagster as dg
import msgspec
from pydantic import Field

from nessie_ops.errors import BadRequest
from nessie_ops.gc import expire
from nessie_ops.gc.expire import SweepSettings
from nessie_ops.gc.policies import Policies, from_config, split_options
from nessie_ops.gc.sweep import LISTERS
from nessie_ops.model.repository import parse_duration
from nessie_ops.store.livesets import LiveSetRecord
from resources.collection import Parts


class PlanConfig(dg.Config):
    """Cutoffs, as of `nessie-ops gc mark-live`; without any, the repository's configuration counts."""

    default_cutoff: str = ""
    cutoffs: list[str] = Field(default_factory=list)
    keep_live_sets: str = "P90D"


class SweepConfig(dg.Config):
    """As of `nessie-ops gc sweep`; the first partition of a live set decides for all of them, but for the caps."""

    grace_period: str = ""
    unreferenced_age: str = ""
    allowed_locations: list[str] = Field(default_factory=list)
    expire_snapshots: bool = False
    expire_on: str = ""
    max_deletions: int = Field(expire.MAX_FILES, ge=0)
    max_deletion_share: float = Field(expire.MAX_SHARE, ge=0, le=1)
    force: bool = False
    dry_run: bool = False


class DeletionConfig(dg.Config):
    """`live_set` is what a person has looked at; empty: the one that this run found.  `force` goes past the caps."""

    live_set: str = ""
    force: bool = False
    dry_run: bool = False


class PurgeConfig(dg.Config):
    """As of `nessie-ops store purge`."""

    grace: str = "P7D"
    dry_run: bool = False


def read_policies(config: PlanConfig, parts: Parts) -> Policies:
    """The configured cutoffs, else those of the repository; BadRequest."""
    now = parts.context.clock()
    if config.default_cutoff or config.cutoffs:
        rules = tuple(split_options(config.cutoffs, "cutoffs"))
        return Policies(now, config.default_cutoff or "NONE", rules).validated()
    return from_config(parts.config, now) if parts.config else Policies(now)


def read_settings(config: SweepConfig, parts: Parts, record: LiveSetRecord) -> SweepSettings:
    """Those with which the sweep of this live set began, else those of the configuration; BadRequest.

    Caps are always those of the configuration.
    """
    if config.expire_on and not config.expire_snapshots:
        raise BadRequest("expire_on: give expire_snapshots, too.")
    if record.figures == "{}":
        return _configured(config, parts)
    if config.dry_run:
        raise BadRequest("dry_run: the sweep of this live set has begun; launch find_garbage, which begins another.")
    return msgspec.structs.replace(
        expire.read_settings(record),
        max_files=config.max_deletions,
        max_share=config.max_deletion_share,
        is_forced=config.force,
        listers=LISTERS,
    )


def is_as_begun(config: SweepConfig, parts: Parts, record: LiveSetRecord) -> bool:
    """Whether the configuration says what the sweep of this live set began with, caps aside."""
    settings = msgspec.structs.replace(_configured(config, parts), is_forced=True)
    return expire.fingerprint(settings, expire.max_modified_at(settings, record)) == record.figures


def _configured(config: SweepConfig, parts: Parts) -> SweepSettings:
    stored = parts.config
    grace = config.grace_period or (stored.new_files_grace_period if stored else "") or "PT24H"
    age = config.unreferenced_age
    return SweepSettings(
        grace=parse_duration(grace, "grace_period"),
        expected_files=(stored.expected_file_count_per_content if stored else 0) or 1_000_000,
        unreferenced_age=parse_duration(age, "unreferenced_age") if age else None,
        allowed_locations=tuple(config.allowed_locations),
        expires_snapshots=config.expire_snapshots,
        expires_on=config.expire_on,
        max_files=config.max_deletions,
        max_share=config.max_deletion_share,
        is_forced=config.force,
        is_deferred=True,
        is_dry_run=config.dry_run,
    )
