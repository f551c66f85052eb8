"""The job that a handler runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from ._payloads import Payload, encoded

#: The largest checkpoint in bytes, and the longest text of a progress in characters (docs/protocol.md).
LARGEST_CHECKPOINT = 65_535
LONGEST_PROGRESS_TEXT = 400


class Parent(NamedTuple):
    """The end of a job that this one waited for."""

    job_id: int
    #: `done`, `dead`, `cancelled` or `gone`.
    state: str
    error: str | None
    #: Only if its queue keeps outputs.
    output: bytes | None


class Notes:
    """Where a running job's notes go: to the worker, or to a test."""

    def write(self, job: Job, fields: dict[str, object], checkpoint: bytes | None = None) -> None:
        raise NotImplementedError

    def is_stopping(self) -> bool:
        raise NotImplementedError


class Job:
    """A running job, the second argument of a handler that has two."""

    __slots__ = ("_checkpoint", "_fields", "_notes", "_payload", "_started_at")

    def __init__(self, fields: Mapping[str, Any], payload: Payload, checkpoint: bytes | None, notes: Notes) -> None:
        self._fields = fields
        self._payload = payload
        self._checkpoint = checkpoint
        self._notes = notes
        self._started_at = time.monotonic()

    def __repr__(self) -> str:
        return f"<Job {self.id}, attempt {self.attempt} of {self.max_attempts}>"

    @property
    def id(self) -> int:
        return int(self._fields["job_id"])

    @property
    def attempt(self) -> int:
        """1 in the first attempt."""
        return int(self._fields["attempt"])

    @property
    def max_attempts(self) -> int:
        return int(self._fields["max_attempts"])

    @property
    def fence(self) -> int:
        """Grows with each claim of the job. Results with an older fence can be ignored."""
        return int(self._fields["fence"])

    @property
    def kind(self) -> str | None:
        return self._fields.get("kind")

    @property
    def headers(self) -> Mapping[str, Any]:
        return self._fields.get("headers") or {}

    @property
    def group_key(self) -> str | None:
        return self._fields.get("group_key")

    @property
    def batch_id(self) -> int | None:
        return self._fields.get("batch_id")

    @property
    def correlation_id(self) -> UUID | None:
        text = self._fields.get("correlation_id")
        return None if text is None else UUID(text)

    @property
    def parents(self) -> list[Parent]:
        """The jobs that this one waited for."""
        return [
            Parent(end["job_id"], end["state"], end.get("error"), data_of(end, "output"))
            for end in self._fields.get("parents") or ()
        ]

    @property
    def time_left(self) -> float | None:
        """The remaining time limit in seconds."""
        limit = self._fields.get("time_limit_s")
        return None if limit is None else max(0.0, limit - (time.monotonic() - self._started_at))

    @property
    def payload(self) -> memoryview:
        """The payload's bytes, without a copy."""
        return memoryview(self._payload).toreadonly()

    @property
    def checkpoint(self) -> bytes | None:
        """The last checkpoint that an earlier attempt saved."""
        return self._checkpoint

    @property
    def stopping(self) -> bool:
        """Whether the worker has been told to stop. Always False on Windows.

        The job may continue until the worker's `--shutdown-deadline`. A long job should save a checkpoint and raise
        `Snooze("stopped", 0)`, so that another worker continues it.
        """
        return self._notes.is_stopping()

    def progress(self, fraction: float, text: str = "") -> None:
        """Shows how far the job is, from 0 to 1, with a text of up to 400 characters."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"the fraction is {fraction}; it must be from 0 to 1")
        fields: dict[str, object] = {"progress": float(fraction)}
        if text:
            fields["progress_text"] = text[:LONGEST_PROGRESS_TEXT]
        self._notes.write(self, fields)

    def save(self, checkpoint: object) -> None:
        """Saves text, bytes or JSON of up to 65,535 bytes for the job's next attempt."""
        data = bytes(encoded(checkpoint) or b"")
        if len(data) > LARGEST_CHECKPOINT:
            raise ValueError(f"the checkpoint has {len(data)} bytes; at most {LARGEST_CHECKPOINT} are saved")
        self._notes.write(self, {}, data)

    def log(self, text: str) -> None:
        """Adds a line to the job's log."""
        self._notes.write(self, {"log": str(text)})


def data_of(fields: Mapping[str, Any], name: str) -> bytes | None:
    """Bytes that a line contains as text or hexadecimal digits."""
    text = fields.get(f"{name}_text")
    if text is not None:
        return bytes(text.encode())
    digits: str | None = fields.get(f"{name}_hex")
    return None if digits is None else bytes.fromhex(digits[2:])
