"""Deletes the recorded candidates of a live set, in batches, each after another look at the references.

The outcome of each file is recorded soon after its batch, so a run that was killed deletes the rest when it is started
again; what it had deleted already is then `gone`, which is no error.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import NamedTuple

from nessie_ops.gc.expand import Broken
from nessie_ops.gc.recheck import Recheck
from nessie_ops.gc.recorder import Recorder
from nessie_ops.gc.storage import Deleted, ListedFile, StorageError, Stores
from nessie_ops.store.livesets import FileRecord, LiveSets

BATCH = 1000  # files of one look at the references; as many as S3 deletes by one request
DELETERS = 3  # batches at a time, so that one is recorded while others are under way
LOOKERS = 16  # files looked at at a time
OPEN = ("pending", "failed")  # states of files that are still to be deleted
_Running = tuple[list[FileRecord], Future[list[Deleted]]]
_SECOND = 1_000_000  # S3 tells a single file's time by the second


class Outcome(NamedTuple):
    """Files by how they ended (`deleted`, `gone`, `failed`, `kept`), and the bytes that were freed.

    Files are still `pending` that may be of tables which are `broken`.
    """

    files: Counter[str]
    freed_bytes: int
    broken: list[Broken]


class Deletion:
    """How recorded files are deleted.

    With `looks_again` each file is looked at before, and stays when it has been changed since it was listed.  `judge`
    tells what is known otherwise of a file: `live`, `broken` or `dead`.
    `on_batch` is told the (folder, files deleted) of each batch; `is_dry_run` deletes nothing and records nothing.
    """

    def __init__(
        self,
        stores: Stores,
        sets: LiveSets,
        number: int,
        recheck: Recheck,
        *,
        judge: Callable[[str], str] = lambda location: "dead",
        looks_again: bool = False,
        is_dry_run: bool = False,
        before_batch: Callable[[], None] = lambda: None,
        on_batch: Callable[[str, int], None] = lambda base, count: None,
        progress: Callable[[str, int], None] = lambda step, count: None,
    ) -> None:
        self._stores, self._sets, self._number, self._recheck = stores, sets, number, recheck
        self._judges = (recheck.judge, judge)
        self._looks_again, self._is_dry_run = looks_again, is_dry_run
        self._before_batch, self._on_batch, self._progress = before_batch, on_batch, progress

    def run(self) -> Outcome:
        """Delete all files that are still to be deleted, those that failed before once more."""
        outcome = Outcome(Counter(), 0, [])
        # As they are in the beginning: a file that fails again is behind the place that has been read.
        files = iter(self._sets.list_files(self._number, OPEN))
        running: deque[_Running] = deque()
        with (
            Recorder(self._record) as recorder,
            ThreadPoolExecutor(DELETERS, "nessie-ops-gc-delete") as pool,
        ):
            while batch := list(islice(files, BATCH)):
                self._before_batch()
                outcome = outcome._replace(broken=self._recheck.refresh())
                running.append((batch, pool.submit(self._delete, batch, recorder)))
                if len(running) == DELETERS:
                    outcome = self._finish(outcome, *running.popleft())
            while running:
                outcome = self._finish(outcome, *running.popleft())
        return outcome

    def _record(self, ended: list[list[Deleted]]) -> None:
        if not self._is_dry_run:
            self._sets.set_states(self._number, chain.from_iterable(ended))

    def _finish(self, outcome: Outcome, batch: Sequence[FileRecord], running: Future[list[Deleted]]) -> Outcome:
        """Wait for a batch, and count how its files ended."""
        ended = running.result()
        outcome.files.update(deleted.state for deleted in ended)
        if left := len(batch) - len(ended):
            outcome.files["pending"] += left
        sizes = {file.location: file.size_bytes for file in batch}
        freed = sum(sizes[deleted.location] for deleted in ended if deleted.state == "deleted")
        self._tell(batch, ended)
        self._progress("files deleted", outcome.files["deleted"])
        return outcome._replace(freed_bytes=outcome.freed_bytes + freed)

    def _delete(self, batch: Sequence[FileRecord], recorder: Recorder[list[Deleted]]) -> list[Deleted]:
        ended = self._end(batch)
        recorder.put(ended)  # at once, whatever becomes of the others
        return ended

    def _end(self, batch: Sequence[FileRecord]) -> list[Deleted]:
        fates = {file.location: {judge(file.location) for judge in self._judges} for file in batch}
        kept = [Deleted(location, "kept", "became reachable") for location, found in fates.items() if "live" in found]
        rest = [file for file in batch if fates[file.location] == {"dead"}]
        if self._looks_again:
            with ThreadPoolExecutor(LOOKERS, "nessie-ops-gc-look") as pool:
                kept += [found for found in pool.map(self._look, rest) if found]
            done = {deleted.location for deleted in kept}
            rest = [file for file in rest if file.location not in done]
        if self._is_dry_run:
            return [*kept, *(Deleted(file.location, "deleted") for file in rest)]
        return [*kept, *self._stores.delete(file.location for file in rest)]

    def _look(self, file: FileRecord) -> Deleted | None:
        """Why a file is not to be deleted any more, if so."""
        try:
            found = self._stores.of(file.location).stat(file.location)
        except StorageError as error:
            return Deleted(file.location, "failed", str(error))
        if found is None:
            return Deleted(file.location, "gone")
        return Deleted(file.location, "kept", "was written anew") if is_changed(file, found) else None

    def _tell(self, batch: Sequence[FileRecord], ended: Iterable[Deleted]) -> None:
        bases = {file.location: file.base for file in batch}
        for base, count in Counter(bases[found.location] for found in ended if found.state == "deleted").items():
            self._on_batch(base, count)


def is_changed(recorded: FileRecord, found: ListedFile) -> bool:
    """Whether a file is not the one any more that was recorded."""
    times = recorded.modified_at // _SECOND, found.modified_at // _SECOND
    return recorded.size_bytes != found.size_bytes or times[0] != times[1]
