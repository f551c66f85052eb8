"""A SQL Server table as a job queue: workers and producers in Python.

`readpast.worker` runs jobs, `Queue` adds them, and `readpast.testing` has a stand-in for SQL Server. The guide is
docs/python.md.
"""

from ._job import Job, Parent
from ._new_job import Enqueued, NewJob
from ._queue import Queue
from .exceptions import (
    Cancelled,
    Dead,
    Error,
    Failed,
    InvalidJob,
    Move,
    ProgramNotFound,
    QueueFull,
    ResultTimeout,
    Retry,
    Snooze,
    UnknownQueue,
)

__all__ = [
    "Cancelled",
    "Dead",
    "Enqueued",
    "Error",
    "Failed",
    "InvalidJob",
    "Job",
    "Move",
    "NewJob",
    "Parent",
    "ProgramNotFound",
    "Queue",
    "QueueFull",
    "ResultTimeout",
    "Retry",
    "Snooze",
    "UnknownQueue",
]
