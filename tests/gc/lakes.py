"""Lakes on a local disk and on S3, and collections of lakes, step by step."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nessie_ops.gc import expire, identify
from nessie_ops.gc.bases import Bounds, choose_bases
from nessie_ops.gc.deletion import Deletion, Outcome
from nessie_ops.gc.engine import Engine
from nessie_ops.gc.expire import Hooks, SweepSettings, Swept
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.source import Catalog, Source
from nessie_ops.gc.storage import Stores
from nessie_ops.store.livesets import LiveSetRecord, LiveSets
from tests.gc.lake import Lake, State, _metadata


class LocalLake(Lake):
    """A lake in a folder; its locations are paths with the scheme `file`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.root = f"file://{self.folder}"

    def write(self, location: str, data: bytes = b"x") -> str:
        path = Path(location.removeprefix("file:").replace("///", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (self.now.timestamp(), self.now.timestamp()))
        return location

    def list_files(self) -> dict[str, datetime]:
        return {
            f"file://{path}": datetime.fromtimestamp(path.stat().st_mtime, UTC)
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    def close(self) -> None:
        self.versions.close()


class S3Lake(Lake):
    """A lake in the bucket `bucket`; files are as old as they are, so its clock is years ahead when it collects."""

    def __init__(self, client: Any) -> None:
        self.client = client
        super().__init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.now = datetime.now(UTC) + timedelta(days=365)
        self.root = "s3://bucket/lake"

    def write(self, location: str, data: bytes = b"x") -> str:
        bucket, _, key = location.partition("://")[2].partition("/")
        self.client.put_object(Bucket=bucket, Key=key, Body=data)
        return location

    def describe(self, state: State) -> bytes:
        """The metadata file of a state."""
        return _metadata(state)

    def list_files(self) -> dict[str, datetime]:
        rows = self.client.list_objects_v2(Bucket="bucket").get("Contents", ())
        return {f"s3://bucket/{row['Key']}": row["LastModified"] for row in rows}

    def close(self) -> None:
        self.versions.close()


class Collection:
    """One live set of a lake.  What it may delete is as old as the mark, if nothing else is said."""

    def __init__(
        self,
        lake: Lake,
        sets: LiveSets,
        *,
        stores: Stores | None = None,
        source: Source | None = None,
        id: str = "id",
        owner: str = "me",
        engine: Engine | None = None,
    ) -> None:
        self.lake, self.sets, self.id = lake, sets, id
        self.hooks = Hooks(engine=engine)
        self.stores = stores or Stores()
        self.source = source or Catalog(lake.versions)
        self.context = Context(lambda: lake.now, owner, lambda step, count: None)

    def mark(self, policy: str = "1", rules: tuple[tuple[str, str], ...] = ()) -> LiveSetRecord:
        self.lake.now += timedelta(hours=1)
        settings = MarkSettings("test", Policies(self.lake.now, policy, rules))
        identify.begin(self.sets, self.source, self.id, settings, self.context)
        return identify.identify(self.sets, self.source, self.id, self.context)

    def sweep(self, **settings: Any) -> Swept:
        given = SweepSettings(**{"grace": timedelta(0), "is_forced": True} | settings)
        return expire.sweep(self.sets, self.id, self.source, self.stores, given, self.context, self.hooks)

    def sweep_all(self, policy: str = "1", **settings: Any) -> Swept:
        """Mark and sweep, whatever comes of it."""
        self.mark(policy)
        return self.sweep(**settings)

    def run(self, policy: str = "1", **settings: Any) -> set[str]:
        """Mark and sweep; which files are gone then."""
        self.mark(policy)
        return self.deleted(**settings)

    def deleted(self, **settings: Any) -> set[str]:
        """Sweep; which files are gone then."""
        before = self.lake.list_files()
        swept = self.sweep(**settings)
        assert not swept.stopped
        assert not swept.expansion.broken
        return set(before) - set(self.lake.list_files())

    def delete_deferred(self) -> Outcome:
        """Delete what a sweep recorded."""
        record = identify.get_live_set(self.sets, self.id)
        recheck = expire.make_recheck(self.sets, record, self.source, self.stores, expire.SweepSettings())
        return Deletion(self.stores, self.sets, record.number, recheck).run()

    def states(self) -> dict[str, str]:
        """The states of the recorded files."""
        number = identify.get_live_set(self.sets, self.id).number
        return {file.location: file.state for file in self.sets.list_files(number)}

    def sweep_refused(self) -> dict[str, str]:
        """Which locations a sweep does not list, and why."""
        record = identify.get_live_set(self.sets, self.id)
        settings = SweepSettings(is_forced=True)
        _, expansion = expire.expand_live(self.sets, record, self.source, self.stores, settings, self.context)
        return choose_bases(self.stores, Bounds(self.stores), expansion).refused
