"""The exceptions of the package: outcomes that a handler chooses by raising them, and errors of calls."""

from __future__ import annotations

from datetime import timedelta
from numbers import Number
from typing import Union

Seconds = Union[float, timedelta]


def seconds_of(value: Seconds, name: str) -> float:
    """The value in seconds. Raises TypeError if it is neither a number nor a timedelta."""
    # A Number is also one of NumPy, and a Decimal.
    if isinstance(value, bool) or not isinstance(value, (timedelta, Number)):
        raise TypeError(f"{name} is {value!r}; it must be seconds or a timedelta")
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def in_seconds(value: Seconds, name: str) -> float:
    """The value in seconds. Raises ValueError if it is negative or not a number."""
    seconds = seconds_of(value, name)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{name} is {value}; it must be 0 or more seconds")
    return seconds


def _restored(kind: type[BaseException], arguments: tuple[object, ...], values: dict[str, object]) -> BaseException:
    """An exception from another process. Its `args` are not what its `__init__` takes."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(values)
    return error


class Outcome(Exception):
    """What becomes of a job that is not done. Handlers raise `Retry`, `Snooze`, `Move` or `Dead`."""

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.args, self.__dict__)

    def fields(self) -> dict[str, object]:
        """The fields of the reply besides the error."""
        return {}


class Retry(Outcome):
    """The job runs again: `after` this many seconds, or after the retry policy's delay."""

    def __init__(self, message: str = "", after: Seconds | None = None) -> None:
        super().__init__(message)
        self.after = None if after is None else in_seconds(after, "after")

    def fields(self) -> dict[str, object]:
        return {} if self.after is None else {"retry_in_s": self.after}


class Snooze(Outcome):
    """The job runs again after this many seconds, and no attempt is counted."""

    def __init__(self, message: str, seconds: Seconds) -> None:
        super().__init__(message)
        self.seconds = in_seconds(seconds, "seconds")

    def fields(self) -> dict[str, object]:
        return {"snooze_s": self.seconds}


class Move(Outcome):
    """The job goes to another queue."""

    def __init__(self, message: str, queue: str) -> None:
        super().__init__(message)
        # Without a name, the job would only be retried.
        if not isinstance(queue, str):
            raise TypeError(f"the queue is {queue!r}; it must be a name")
        self.queue = queue

    def fields(self) -> dict[str, object]:
        return {"move_to": self.queue}


class Dead(Outcome):
    """The job cannot succeed: it is not tried again."""

    def fields(self) -> dict[str, object]:
        return {"dead": True}


class Cancelled(BaseException):
    """The running job must end: it was cancelled, has reached its time limit, or its worker must exit.

    It is raised in the handler, so that `finally` and `with` run. The process exits afterwards, within the worker's
    `--grace`. Like `KeyboardInterrupt`, it is not an `Exception`, so `except Exception` does not catch it.
    """


class Error(Exception):
    """A call failed."""

    #: How many jobs `enqueue_many` had added before the error.
    added: int = 0


class ProgramNotFound(Error, FileNotFoundError):
    """The program `readpast` is neither where the package was installed nor in PATH."""


class UnknownQueue(Error):
    """The queue does not exist."""


class QueueFull(Error):
    """The queue has as many unfinished jobs as it may have (`max_depth`)."""


class InvalidJob(Error, ValueError):
    """A value of the job is invalid; the message says why."""


class ResultTimeout(Error, TimeoutError):
    """The job has not finished within the timeout."""


class Failed(Error):
    """The job is dead or cancelled, as `state` says; `error` says why, if known."""

    def __init__(self, job_id: int, state: str, error: str | None) -> None:
        super().__init__(f"job {job_id} is {state}: {error}" if error else f"job {job_id} is {state}")
        self.job_id = job_id
        self.state = state
        self.error = error

    def __reduce__(self) -> tuple[object, ...]:
        return Failed, (self.job_id, self.state, self.error)
