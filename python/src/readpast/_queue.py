"""Producers: jobs are added to a queue, and their results read back."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union
from uuid import UUID

from ._by_driver import End, Session, parts
from ._by_program import Program
from ._drivers import Connection, connect, message_of, rows_of
from ._job import data_of
from ._new_job import Enqueued, NewJob
from .exceptions import Error, Failed, ResultTimeout, Seconds, in_seconds

T = TypeVar("T")

#: How often `result` looks, in seconds: first and last delay, as `Queue::wait` of the Rust library.
FIRST_LOOK_S = 0.01
LAST_LOOK_S = 0.2

#: A connection that was idle longer, in seconds, is tried before it is used: a firewall may have closed it.
TRIED_AFTER_S = 30.0


@dataclass(frozen=True)
class EnqueuedMany:
    """What became of many jobs to enqueue."""

    #: How many jobs were added.
    added: int
    #: How many were not, because an unfinished job has their key.
    duplicates: int
    _jobs: Optional[List[Enqueued]] = field(default=None, repr=False)

    @property
    def jobs(self) -> List[Enqueued]:
        """Each job, in order. Raises Error without a driver: the program does not report them."""
        if self._jobs is None:
            raise Error("without a driver, enqueue_many does not learn the ids of the jobs; use enqueue")
        return self._jobs


class Queue:
    """A queue to which jobs are added.

    With a connection string, it opens a connection at the first call and keeps it; threads can share the queue. It
    uses the first of mssql-python, pyodbc, python-tds and pymssql that is installed and suits the connection string,
    otherwise the program `readpast`, which takes some ten milliseconds for each call.

    With your own DB-API `connection`, jobs are added in its transaction, which you commit or roll back.

    Args:
        name: the queue's name.
        url: the ADO.NET connection string; by default, READPAST_URL.
        connection: a connection of one of these drivers.
        schema: where readpast is installed.
    """

    def __init__(
        self, name: str, url: Optional[str] = None, *, connection: Connection = None, schema: str = "readpast"
    ) -> None:
        if connection is not None and url is not None:
            raise TypeError("Queue takes either a url or a connection")
        self.name = name
        self._schema = schema
        self._url = url
        self._is_own = connection is None
        self._lock = threading.Lock()
        # SQLAlchemy's pool wraps the driver's connection.
        connection = getattr(connection, "dbapi_connection", connection)
        self._session = None if connection is None else Session(connection, name, schema)
        self._program: Optional[Program] = None
        self._process = os.getpid()
        self._used_at = 0.0

    def __enter__(self) -> "Queue":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the queue's own connection. A later call opens another."""
        with self._lock:
            self._disconnect()

    def enqueue(
        self,
        payload: object,
        *,
        kind: Optional[str] = None,
        key: Optional[str] = None,
        group: Optional[str] = None,
        priority: int = 0,
        delay: Optional[Seconds] = None,
        due_at: Optional[datetime] = None,
        start_within: Optional[Seconds] = None,
        start_by: Optional[datetime] = None,
        headers: Optional[Mapping[str, Any]] = None,
        max_attempts: Optional[int] = None,
        time_limit: Optional[Seconds] = None,
        correlation_id: Union[UUID, str, None] = None,
        batch: Optional[int] = None,
        needs: Optional[Mapping[str, int]] = None,
        after: Sequence[int] = (),
        on_dead: str = "hold",
    ) -> Enqueued:
        """Adds a job. The arguments are explained at `NewJob`.

        Raises:
            UnknownQueue, QueueFull, InvalidJob: nothing was added. A transaction of yours goes on.
            Error: the call failed. If the connection was lost, the job may have been added nevertheless; with a `key`,
                it can be enqueued again.
        """
        job = NewJob(
            payload, kind=kind, key=key, group=group, priority=priority, delay=delay, due_at=due_at,
            start_within=start_within, start_by=start_by, headers=headers, max_attempts=max_attempts,
            time_limit=time_limit, correlation_id=correlation_id, batch=batch, needs=needs, after=after,
            on_dead=on_dead,
        )  # fmt: skip
        return self._call(lambda session: session.enqueue(job), lambda program: program.enqueue(job))

    def enqueue_many(self, jobs: Iterable[object]) -> EnqueuedMany:
        """Adds many jobs, 500 per call. Each is a `NewJob`, or just a payload.

        Raises:
            QueueFull, InvalidJob, Error: as for `enqueue`. Without a transaction of yours, the jobs of earlier calls
                were added; the error's `added` says how many.
        """
        new = [job if isinstance(job, NewJob) else NewJob(job) for job in jobs]
        enqueued: List[Enqueued] = []
        added = duplicates = 0
        try:
            for part in parts(new):
                counts = self._call(
                    lambda session: self._add(session, part, enqueued), lambda program: program.enqueue_list(part)
                )
                added += counts[0]
                duplicates += counts[1]
        except Error as error:
            # Those of the failed call are the program's.
            error.added = error.added + added if self._is_own else 0
            raise
        return EnqueuedMany(added, duplicates, enqueued if len(enqueued) == len(new) else None)

    @staticmethod
    def _add(session: Session, part: Sequence[NewJob], enqueued: List[Enqueued]) -> Tuple[int, int]:
        jobs = session.enqueue_list(part)
        enqueued += jobs
        duplicates = sum(job.duplicate for job in jobs)
        return len(jobs) - duplicates, duplicates

    def result(self, job_id: int, timeout: Optional[Seconds] = None) -> Optional[bytes]:
        """Waits until a job is done, and returns its output.

        None is a job without an output, or one whose queue does not keep it (completion policy `delete`).

        Raises:
            Failed: the job is dead or cancelled.
            ResultTimeout: it has not finished within `timeout` seconds.
        """
        limit = None if timeout is None else in_seconds(timeout, "timeout")
        state, error, output = self._end_of(job_id, limit)
        if state in ("done", "gone"):
            return output
        raise Failed(job_id, state, error)

    def _end_of(self, job_id: int, limit: Optional[float]) -> End:
        began, delay = time.monotonic(), FIRST_LOOK_S
        while True:
            left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
            end = self._call(
                lambda session: session.end_of(job_id), lambda program: _end(program.wait(job_id, left))
            )
            if end is not None:
                return end
            if left == 0:
                raise ResultTimeout(f"job {job_id} has not finished within {limit:g} s")
            time.sleep(delay if left is None else min(delay, left))
            delay = min(2 * delay, LAST_LOOK_S)

    def _call(self, by_session: Callable[[Session], T], by_program: Callable[[Program], T]) -> T:
        if not self._is_own:
            # The driver's exceptions are the caller's.
            assert self._session is not None
            return by_session(self._session)
        with self._lock:
            session = self._connected()
            if session is None:
                assert self._program is not None
                program = self._program
            else:
                try:
                    result = by_session(session)
                    self._used_at = time.monotonic()
                    return result
                except Error:
                    raise
                except BaseException as error:
                    # What a call leaves on a connection after this is unknown.
                    self._disconnect()
                    if isinstance(error, Exception) and not isinstance(error, (TypeError, ValueError)):
                        raise Error(f"queue {self.name}: {message_of(error)}") from error
                    raise
        return by_program(program)

    def _connected(self) -> Optional[Session]:
        """The session of the queue's own connection; None if there is the program instead."""
        if self._process != os.getpid():
            # The connection is the parent process's.
            self._session, self._process = None, os.getpid()
        if self._session is not None and time.monotonic() - self._used_at > TRIED_AFTER_S:
            try:
                rows_of(self._session.connection, "SELECT 1", [])
            except Exception:
                self._disconnect()
        if self._session is None and self._program is None:
            url = self._url or os.environ.get("READPAST_URL")
            if not url:
                raise Error("there is no connection string: set READPAST_URL, or pass url or connection")
            try:
                connected = connect(url)
            except Error:
                raise
            except Exception as error:
                raise Error(f"cannot connect to SQL Server: {message_of(error)}") from error
            if connected is None:
                self._program = Program(url, self.name, self._schema)
            else:
                self._session = Session(connected[1], self.name, self._schema)
                self._used_at = time.monotonic()
        return self._session

    def _disconnect(self) -> None:
        if self._session is not None and self._is_own:
            session, self._session = self._session, None
            try:
                session.connection.close()
            except Exception:
                pass  # it is broken already


def _end(end: Optional[Mapping[str, Any]]) -> Optional[End]:
    return None if end is None else (end["end"], end["error"], data_of(end, "output"))
