"""Store: transactions over the tables, with immutable objects cached across them.

Counters in `Store.reads` and `Store.writes` (rows, by table) let tests guard complexity.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn, Self, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolExhausted

from nessie_ops.errors import OutcomeUnknown, StoreFormatError, StoreUnavailable
from nessie_ops.store import dialects, once, schema
from nessie_ops.store.cache import Cache
from nessie_ops.store.dialects import Dialect, InDoubt, Verdict
from nessie_ops.store.forks import gate
from nessie_ops.store.groups import Groups, Job
from nessie_ops.store.heads import Heads, WatchedHeads
from nessie_ops.store.rows import ReferenceRecord, storable
from nessie_ops.store.signal import Signal
from nessie_ops.store.transactions import Objects, Transaction
from nessie_ops.store.writing import WriteTransaction

log = logging.getLogger("nessie_ops.store")
T = TypeVar("T")
MAX_TRIES = 8  # of a transaction that the database rolled back for another's sake
RETRY_SLEEP_S = 0.02  # times the number of the try, halved or not at random


class Store:
    """A database of the catalog.  Safe for threads, for several processes, and to use on both sides of a fork."""

    def __init__(
        self,
        engine: Engine,
        dialect: Dialect,
        *,
        cache: Cache | None = None,
        in_memory: bool = False,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._engine = engine
        self.dialect = dialect
        self._errors: tuple[type[Exception], ...] = (*dialect.errors, DBAPIError)
        self._failures: tuple[type[Exception], ...] = (InDoubt, *self._errors)
        self._clock_ns = clock_ns
        self._reader = engine.execution_options(isolation_level="AUTOCOMMIT") if dialect.row_locks else engine
        self._writer = engine.execution_options(**{dialects.WRITE: True})
        self.cache = cache or Cache()
        self.reads: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        # SQLite has one writer: waiting here is fair and cheap, waiting there is polling.  A store in
        # memory has one connection, so readers wait, too.
        lock = threading.RLock()
        self._write_lock: AbstractContextManager[object] = nullcontext() if dialect.row_locks else lock
        self._read_lock: AbstractContextManager[object] = lock if in_memory else nullcontext()
        self.moved = Signal()
        self._groups = Groups(self._run_group)
        self._heads = None if in_memory else Heads(engine, dialect)
        self._watched: WatchedHeads | None = None
        if self._heads:
            gate.guard(engine, self._heads.close)
        try:
            self._prepare()
        except DBAPIError as error:
            raise StoreFormatError(f"The store is not a catalog of nessie_ops: {error.orig}.") from error

    def _prepare(self) -> None:
        """Create the tables of a new store; one that is ready is only read."""
        with gate.transaction(), self._read_lock, self._begin(self._reader) as connection:
            if schema.is_ready(connection):
                return
        with (
            gate.transaction(),
            self._write_lock,
            self._begin(self._writer) as connection,
            self.dialect.schema_lock(connection),
        ):
            if not schema.is_ready(connection):
                schema.create(connection)

    @classmethod
    def open(cls, url: str, *, cache: Cache | None = None, create: bool = True) -> Self:
        """Open the database at a SQLAlchemy URL, creating it and its tables if it is new.

        BadRequest (the URL; with `create` false also a missing database), StoreFormatError, StoreUnavailable.
        """
        parsed, dialect = dialects.parse_url(url)
        engine = dialect.open_engine(parsed, create)
        try:
            return cls(engine, dialect, cache=cache, in_memory=dialects.is_memory(url))
        except BaseException:
            engine.dispose()
            raise

    def close(self) -> None:
        if self._watched:
            self._watched.close()
        if self._heads:
            self._heads.close()
        self._engine.dispose()

    @property
    def objects(self) -> Objects:
        """The immutable objects that are in memory."""
        return Objects(self.cache)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A view of the database: one snapshot in SQLite, else each query sees what is committed then."""
        with gate.transaction(), self._read_lock, self._begin(self._reader) as connection:
            yield Transaction(connection, self.dialect, self.cache, self.reads)

    def get_heads(self, names: Sequence[str]) -> dict[str, ReferenceRecord]:
        """Those of these references that exist, by name, as they are now; at most 500."""
        names = [name for name in names if storable(name)]
        if not names:
            return {}
        if self._heads is None:
            with self.read() as tx:
                return tx.get_references(names)
        try:
            with gate.transaction():
                return self._heads.get(names)
        except PoolExhausted as error:
            raise StoreUnavailable(_EXHAUSTED) from error
        except self._errors as error:
            self._explain(error)

    @contextmanager
    def snapshot(self) -> Iterator[Transaction]:
        """One state of the database for as long as the context lasts, whatever others write meanwhile."""
        row_locks = self.dialect.row_locks
        engine = self._engine.execution_options(isolation_level="REPEATABLE READ") if row_locks else self._engine
        with gate.transaction(), self._read_lock, self._begin(engine) as connection:
            yield Transaction(connection, self.dialect, self.cache, self.reads)

    def watch_heads(self) -> WatchedHeads | None:
        """A way for one event loop to ask for heads without waiting in a thread; None where there is none."""
        if self.dialect.can_watch and self._watched is None:
            self._watched = WatchedHeads(self._engine)
        return self._watched

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """A writing transaction of its own: all or nothing; durable when this returns."""
        transaction = None
        try:
            with gate.transaction(), self._write_lock, self._begin(self._writer) as connection:
                transaction = self._make_writer(connection)
                yield transaction
                transaction.commit()
                transaction.publish()
        except StoreUnavailable as error:
            if transaction is None or not transaction.is_durable:
                raise
            log.warning("a connection was lost after its COMMIT: %s", error.message)
        if transaction.has_moves:
            self.moved.fire()

    def run(self, function: Callable[[WriteTransaction], T], *references: str) -> T:
        """The result of `function`, which may run more than once, when what it wrote is durable.

        Functions that wait at the same time share one transaction, in the order of their arrival; what one
        raises concerns it alone.  Name the references that it will lock.
        """
        job = Job(function, references)
        result: T = self._groups.run(job)
        return result

    def submit(
        self,
        function: Callable[[WriteTransaction], T],
        references: tuple[str, ...],
        done: Callable[[Job], object],
        start: Callable[[Callable[[], None]], object],
    ) -> None:
        """Like `run`, without waiting: `done` is called with the job in some thread; `start` runs a call in another."""
        self._groups.submit(Job(function, references, done), start)

    def record_answer(self, request: once.KeyedRequest, answer: bytes) -> None:
        """Record the answer to a request that wrote nothing; AlreadyAnswered, KeyReused."""
        self.run(lambda tx: tx.record_answer(request.key, request.digest, answer, request.lifetime_us))

    def _make_writer(self, connection: Connection) -> WriteTransaction:
        used_at = self._clock_ns() // 1000
        return WriteTransaction(connection, self.dialect, self.cache, self.reads, self.writes, used_at)

    def _run_group(self, jobs: list[Job]) -> None:
        """Run jobs in one transaction, again if the database asks for it; each then has a result or an error."""
        for attempt in range(1, MAX_TRIES + 1):
            try:
                with self.write() as tx:
                    if self.dialect.row_locks:
                        tx.lock(name for job in jobs for name in job.references)
                    for job in jobs:
                        job.run(tx)
                return
            except _Retry as retry:
                if attempt == MAX_TRIES:
                    raise StoreUnavailable(
                        f"The catalog's database rolled back {MAX_TRIES} times for others: {retry}. Try again."
                    ) from retry
                time.sleep(RETRY_SLEEP_S * attempt * random.choice((0.5, 1)))

    @contextmanager
    def _begin(self, engine: Engine) -> Iterator[Connection]:
        """A database transaction.  StoreUnavailable: certainly not applied.  OutcomeUnknown: COMMIT itself failed."""
        try:
            with engine.connect() as connection:
                try:
                    with connection.begin(), self._letting_go(connection):
                        yield connection
                except self._errors as error:
                    self._let_go(connection, error)
                    raise
        except InDoubt as doubt:
            raise OutcomeUnknown(
                f"The catalog's database failed while committing: {doubt.args[0]}. Whether the change was "
                "applied is unknown: look before you repeat it."
            ) from doubt
        except PoolExhausted as error:
            raise StoreUnavailable(_EXHAUSTED) from error
        except self._errors as error:
            self._explain(error)

    def _explain(self, error: Any) -> NoReturn:
        verdict = self.dialect.judge(error)
        if verdict is Verdict.RETRY:
            raise _Retry(str(getattr(error, "orig", error))) from error
        if verdict is Verdict.CORRUPT:
            raise error
        text = str(getattr(error, "orig", None) or error).strip()
        raise StoreUnavailable(f"The catalog's database did not answer: {text}. Try again.") from error

    @contextmanager
    def _letting_go(self, connection: Connection) -> Iterator[None]:
        """Do so before the rollback, whose own failure would hide why the transaction ends."""
        try:
            yield
        except self._failures as error:
            self._let_go(connection, error)
            raise

    def _let_go(self, connection: Connection, error: Exception) -> None:
        """Do not use a connection again that is lost or in doubt; when it is lost, so are those that wait."""
        lost = isinstance(error, InDoubt) or self.dialect.judge(error) is Verdict.LOST
        if lost and not connection.closed:
            connection.invalidate(error)
            if self.dialect.row_locks:
                self._engine.dispose(close=False)


_EXHAUSTED = "All connections to the catalog's database are in use. Try again."


class _Retry(StoreUnavailable):
    """The database rolled a transaction back because of another one."""
