"""Group commit when something is wrong with those who wait: the others get their outcome, and somebody leads."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from nessie_ops.errors import StoreUnavailable
from nessie_ops.store.groups import Groups, Job


class Database:
    """Finishes groups when it is told to."""

    def __init__(self) -> None:
        self.is_busy, self.goes_on = threading.Event(), threading.Event()

    def run(self, jobs: list[Job]) -> None:
        self.is_busy.set()
        assert self.goes_on.wait(60)
        for job in jobs:
            job.value = "written"


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def _job(done: Callable[[Job], object] | None = None) -> Job:
    return Job(lambda tx: None, (), done)


def _wait_for(groups: Groups, waiting: int) -> None:
    while len(groups._waiting) != waiting:
        threading.Event().wait(0.001)


def test_one_whose_caller_is_gone_does_not_keep_the_others_waiting(threads: ThreadPoolExecutor) -> None:
    database = Database()
    groups = Groups(database.run)
    first = threads.submit(groups.run, _job())
    database.is_busy.wait()

    def refuse(_job: Job) -> None:
        raise RuntimeError("Event loop is closed")

    groups.submit(_job(refuse), threads.submit)
    second = threads.submit(groups.run, _job())
    _wait_for(groups, 2)
    database.goes_on.set()
    assert (first.result(60), second.result(60)) == ("written", "written")


@pytest.mark.parametrize("others", [0, 1])
def test_a_waiter_that_is_interrupted_leads_nobody(threads: ThreadPoolExecutor, others: int) -> None:
    database = Database()
    groups = Groups(database.run)
    first = threads.submit(groups.run, _job())
    database.is_busy.wait()
    late: list[Future[object]] = []
    main = threading.get_ident()

    def interrupt() -> None:
        _wait_for(groups, 1)
        late.extend(threads.submit(groups.run, _job()) for _ in range(others))
        _wait_for(groups, 1 + others)
        signal.pthread_kill(main, signal.SIGINT)

    interrupting = threads.submit(interrupt)
    with pytest.raises(KeyboardInterrupt):
        groups.run(_job())
    interrupting.result(60)
    database.goes_on.set()
    assert [outcome.result(60) for outcome in [first, *late]] == ["written"] * (1 + others)
    assert threads.submit(groups.run, _job()).result(60) == "written"


def test_an_heir_that_is_interrupted_passes_the_lead_on(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database()
    groups = Groups(database.run)
    first = threads.submit(groups.run, _job())
    database.is_busy.wait()
    heir = _job()

    def wait_and_be_interrupted() -> None:
        assert heir._awake and heir._awake.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(heir, "wait", wait_and_be_interrupted)

    def run_heir() -> None:
        with pytest.raises(KeyboardInterrupt):
            groups.run(heir)

    interrupted = threads.submit(run_heir)
    _wait_for(groups, 1)
    last = threads.submit(groups.run, _job())
    _wait_for(groups, 2)
    database.goes_on.set()
    interrupted.result(60)
    assert (first.result(60), last.result(60)) == ("written", "written")


def test_no_thread_to_be_had_is_an_error_of_those_who_wait_alone(threads: ThreadPoolExecutor) -> None:
    def refuse(_lead: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    database = Database()
    groups = Groups(database.run)
    told: list[Job] = []
    groups.submit(_job(told.append), refuse)
    first = threads.submit(groups.run, _job())
    database.is_busy.wait()
    groups.submit(_job(told.append), refuse)
    second = threads.submit(groups.run, _job())
    _wait_for(groups, 2)
    database.goes_on.set()
    assert first.result(60) == "written"
    with pytest.raises(StoreUnavailable, match="can't start new thread"):
        second.result(60)
    assert [type(job.error) for job in told] == [StoreUnavailable] * 2
    assert groups.run(_job()) == "written"
