"""Where snapshots expire: heads need all that their metadata lists, older kept commits the snapshot that they name."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nessie_ops.gc import expire, identify
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.source import Catalog
from nessie_ops.gc.storage import Stores
from nessie_ops.model import IcebergTable, IcebergView
from nessie_ops.store.livesets import LiveSets
from tests.gc.lake import HOUR, Lake
from tests.gc.test_oracle import EXAMPLES, list_live, step, take_step


def list_shown(lake: Lake) -> set[str]:
    """What heads need, by asking each reference alone."""
    files: set[str] = set()
    for reference in lake.versions.list_references():
        for row in lake.versions.list_entries(reference.hash, with_content=True):
            assert isinstance(row.content, IcebergTable | IcebergView)
            state = lake.needs[row.content.metadata_location]
            files |= {row.content.metadata_location, *state.log}.union(*(each.files for each in state.snapshots))
    return files


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(
    before=st.lists(step, max_size=20), after=st.lists(step, max_size=5), default=st.sampled_from(["NONE", "1", "3"])
)
def test_what_is_live_is_what_brute_force_finds(
    before: list[tuple[str, int, int, int]], after: list[tuple[str, int, int, int]], default: str
) -> None:
    """Also of what was committed between the mark and the look at the heads."""
    lake, sets = Lake(), LiveSets.open("sqlite://")
    try:
        for each in before:
            take_step(lake, *each)
        policies = Policies(lake.now + HOUR, default)
        context = Context(lambda: lake.now, "me", lambda step, count: None)
        source, stores = Catalog(lake.versions), Stores()
        identify.begin(sets, source, "id", MarkSettings("test", policies), context)
        identify.identify(sets, source, "id", context)
        for each in after:
            take_step(lake, *each)
        record = identify.get_live_set(sets, "id")
        chosen = expire.SweepSettings(expires_snapshots=True)
        live, _ = expire.expand_live(sets, record, source, stores, chosen, context)
        found = {file for file in lake.list_files() if stores.physical(file) in live}
        needed = list_live(lake, policies, only_named=True)[0] | list_shown(lake)
        assert found >= needed if after else found == needed
    finally:
        sets.close()
        lake.close()
