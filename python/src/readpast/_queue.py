"""Producers: add jobs to a queue, and read their results."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Callable, TypeVar, Union
from uuid import UUID

from ._by_driver import ERRORS, Session
from ._by_program import Program
from ._drivers import Connection, connect, message_of, number_of, rows_of
from ._new_job import NO_LISTS, End, Enqueued, Limits, NewJob, OnDead, added, parts
from .exceptions import Error, Failed, InvalidJob, QueueFull, ResultTimeout, Seconds, UnknownQueue, in_seconds

T = TypeVar("T")

#: For a child of this process: see `_forget_locks`.
_queues: weakref.WeakSet[Queue] = weakref.WeakSet()

#: How jobs get into SQL Server.
Way = Union[Session, Program]

#: How often `result` looks, in seconds: first and longest delay, as in `Queue::wait` of the Rust library.
FIRST_LOOK_S = 0.01
LAST_LOOK_S = 0.2

#: In seconds. A connection that was idle longer is tested before it is used: a firewall may have closed it.
TRIED_AFTER_S = 30.0


class Queue:
    """Adds jobs to a queue, and reads their results.

    With a connection string, it opens a connection at the first call and keeps it; threads can share the queue. It
    uses the first of mssql-python, pyodbc, python-tds and pymssql that is installed and suits the connection string,
    otherwise the program `readpast`, which takes tens of milliseconds per call.

    With your own DB-API `connection`, jobs are added in its transaction, which you commit or roll back.

    Args:
        name: the queue's name.
        url: the ADO.NET connection string; by default, READPAST_URL.
        connection: a connection of one of these drivers.
        schema: the schema in which readpast is installed; by default, READPAST_SCHEMA, or `readpast`.
    """

    def __init__(
        self, name: str, url: str | None = None, *, connection: Connection = None, schema: str | None = None
    ) -> None:
        if connection is not None and url is not None:
            raise TypeError("Queue takes either a url or a connection")
        self.name = name
        schema = schema or os.environ.get("READPAST_SCHEMA") or "readpast"
        self._schema = schema
        self._url = url
        self._is_own = connection is None
        self._lock = threading.Lock()
        _queues.add(self)
        # SQLAlchemy's pool wraps the driver's connection.
        connection = getattr(connection, "dbapi_connection", connection)
        self._session = None if connection is None else Session(connection, name, schema)
        self._program: Program | None = None
        self._process = os.getpid()
        self._used_at = 0.0
        self._inherited: Session | None = None

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
        kind: str | None = None,
        key: str | None = None,
        group: str | None = None,
        priority: int = 0,
        delay: Seconds | None = None,
        due_at: datetime | None = None,
        start_within: Seconds | None = None,
        start_by: datetime | None = None,
        headers: Mapping[str, Any] | None = None,
        max_attempts: int | None = None,
        time_limit: Seconds | None = None,
        correlation_id: UUID | str | None = None,
        batch: int | None = None,
        needs: Mapping[str, int] | None = None,
        after: Sequence[int] = (),
        on_dead: OnDead = "hold",
    ) -> Enqueued:
        """Adds a job. `NewJob` explains the arguments. A `NewJob` instead of the payload takes no further ones.

        Raises:
            UnknownQueue, QueueFull, InvalidJob: nothing was added. Your transaction stays open.
            Error: the call failed. If the connection broke, the job may have been added; with a `key`, it can be
                enqueued again.
        """
        job = NewJob(
            payload, kind=kind, key=key, group=group, priority=priority, delay=delay, due_at=due_at,
            start_within=start_within, start_by=start_by, headers=headers, max_attempts=max_attempts,
            time_limit=time_limit, correlation_id=correlation_id, batch=batch, needs=needs, after=after,
            on_dead=on_dead,
        )  # fmt: skip
        prepared = job.prepared()
        return self._call(lambda way: way.enqueue(prepared))

    def enqueue_many(self, jobs: Iterable[object]) -> list[Enqueued]:
        """Adds many jobs. Each is a `NewJob`, or just a payload. Returns them in the same order.

        Raises:
            UnknownQueue, QueueFull, InvalidJob, Error: as for `enqueue`. Outside your own transaction, the first jobs
                may have been added; the error's `added` says how many.
        """
        if isinstance(jobs, NO_LISTS):
            raise TypeError(f"the jobs are one {type(jobs).__name__}; pass a list, or use enqueue")
        enqueued: list[Enqueued] = []
        try:
            for part in parts(jobs, self._limits()):
                enqueued += self._call(lambda way: way.enqueue_list(part))
        except Error as error:
            # The program may have added some of the last call's.
            error.added = error.added + added(enqueued) if self._is_own else 0
            raise
        return enqueued

    def result(self, job_id: int, timeout: Seconds | None = None) -> bytes | None:
        """Waits until a job is done, and returns its output.

        Returns None if the job had no output, or if the queue does not keep outputs (completion policy `delete`).

        Raises:
            Failed: the job is dead or cancelled.
            ResultTimeout: it has not finished within `timeout` seconds.
        """
        # In a statement, it is a number.
        job_id = int(job_id)
        limit = None if timeout is None else in_seconds(timeout, "timeout")
        state, error, output = self._end_of(job_id, limit)
        if state in ("done", "gone"):
            return output
        raise Failed(job_id, state, error)

    def _end_of(self, job_id: int, limit: float | None) -> End:
        began, delay = time.monotonic(), FIRST_LOOK_S
        while True:
            left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
            end = self._call(lambda way: way.end_of(job_id, left))
            if end is not None:
                return end
            if left == 0:
                late = f"job {job_id} has not finished within {limit:g} s"
                raise ResultTimeout(f"{late}; `readpast job {job_id}` shows why it waits")
            time.sleep(delay if left is None else min(delay, left))
            delay = min(2 * delay, LAST_LOOK_S)

    def _limits(self) -> Limits:
        with self._lock:
            return self._way().limits

    def _call(self, call: Callable[[Way], T]) -> T:
        if not self._is_own:
            # The driver's exceptions are the caller's.
            return call(self._way())
        with self._lock:
            way = self._way()
            if isinstance(way, Session):
                return self._call_by(way, call)
        return call(way)

    def _call_by(self, session: Session, call: Callable[[Way], T]) -> T:
        try:
            result = call(session)
        except (UnknownQueue, QueueFull, InvalidJob):
            raise
        except Exception as error:
            # A failed call leaves its connection in an unknown state.
            self._disconnect()
            kind = ERRORS.get(number_of(error))
            if kind is not None:
                raise kind(message_of(error)) from error
            raise Error(f"queue {self.name}: {message_of(error)}") from error
        except BaseException:
            self._disconnect()
            raise
        self._used_at = time.monotonic()
        return result

    def _way(self) -> Way:
        """The caller's connection, the queue's own (opened if necessary), or the program."""
        if self._session is not None and self._is_own:
            self._check_session()
        if self._session is not None:
            return self._session
        if self._program is not None:
            return self._program
        url = self._url or os.environ.get("READPAST_URL")
        if not url:
            raise Error(
                "there is no connection string: set READPAST_URL (in a handler, the worker needs the option --pass-env "
                "READPAST_URL), or pass url or connection"
            )
        connected = connect(url)
        if connected is None:
            self._program = Program(url, self.name, self._schema)
            return self._program
        self._session = Session(connected, self.name, self._schema)
        self._process, self._used_at = os.getpid(), time.monotonic()
        return self._session

    def _check_session(self) -> None:
        """Drops the queue's connection if it belongs to another process, or was closed meanwhile."""
        assert self._session is not None
        if self._process != os.getpid():
            # Not closed: that would log out the parent process.
            self._inherited, self._session = self._session, None
        elif time.monotonic() - self._used_at > TRIED_AFTER_S:
            try:
                rows_of(self._session.connection, "SELECT 1", [])
            except Exception:
                self._disconnect()

    def _disconnect(self) -> None:
        session = self._session
        if session is not None and self._is_own:
            self._session = None
            # It may be broken already.
            with contextlib.suppress(Exception):
                session.connection.close()


def _forget_locks() -> None:
    """In a child of this process: a thread that it does not have may have been in a call."""
    for queue in _queues:
        queue._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)
