"""Jobs to enqueue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple
from uuid import UUID

from ._payloads import encoded
from .exceptions import Error, InvalidJob, Seconds, in_seconds


class Enqueued(NamedTuple):
    """The result of enqueueing a job."""

    job_id: int
    #: Nothing was added, because the job `job_id` has the same key and has not ended.
    duplicate: bool


@dataclass(frozen=True)
class EnqueuedMany:
    """The result of enqueueing many jobs."""

    #: How many jobs were added.
    added: int
    #: How many were not, because an unfinished job has their key.
    duplicates: int
    _jobs: list[Enqueued] | None = field(default=None, repr=False)

    @property
    def jobs(self) -> list[Enqueued]:
        """Each job, in order. Raises Error without a driver: the program does not report them."""
        if self._jobs is None:
            raise Error("without a driver, enqueue_many reports no job ids; use enqueue")
        return self._jobs


class End(NamedTuple):
    """How a job has ended."""

    #: `done`, `dead`, `cancelled`, or `gone`: done and deleted.
    state: str
    error: str | None
    output: bytes | None


class Limits(NamedTuple):
    """The limits of one call."""

    rows: int
    #: SQL Server allows 2,100.
    parameters: int
    #: Bytes of all payloads.
    size: int


class Prepared(NamedTuple):
    """A job as it is sent."""

    payload: bytes
    #: The values that are set, by their names in the procedures.
    settings: dict[str, int | str]
    after: list[int]
    on_dead: str


@dataclass(frozen=True)
class NewJob:
    """A job to enqueue. `Queue.enqueue` takes the same arguments."""

    #: Text (`str`), bytes (everything with the buffer protocol), or JSON (everything else).
    payload: object
    #: Chooses the handler.
    kind: str | None = None
    #: While a job with this key has not ended, no other is added.
    key: str | None = None
    #: Jobs of one group run one at a time, in order.
    group: str | None = None
    #: Smaller runs first.
    priority: int = 0
    #: When it is due: after this many seconds, or at this time.
    delay: Seconds | None = None
    due_at: datetime | None = None
    #: It is cancelled if it has not started within this many seconds after it was due, or by this time.
    start_within: Seconds | None = None
    start_by: datetime | None = None
    #: A small JSON object for the handler.
    headers: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    #: In seconds.
    time_limit: Seconds | None = None
    #: Your own id for finding the job.
    correlation_id: UUID | str | None = None
    batch: int | None = None
    #: What it takes from its worker while it runs: `memory` in bytes, `threads`, and tokens.
    needs: Mapping[str, int] | None = None
    #: It starts when these jobs are done.
    after: Sequence[int] = ()
    #: What becomes of it if one of these dies: `hold`, `cancel` or `run`.
    on_dead: str = "hold"

    def prepared(self) -> Prepared:
        """The job as it is sent.

        Raises:
            InvalidJob: if the kind, the key, the group or `on_dead` is invalid.
            TypeError, ValueError: if the payload or another value cannot be sent.
        """
        if self.kind is not None and not re.fullmatch("[!-~]{1,64}", self.kind):
            raise InvalidJob(f"the kind is {self.kind!r}; it must have 1 to 64 printable ASCII characters, no spaces")
        _check_key("key", self.key, 256)
        _check_key("group", self.group, 128)
        if self.on_dead not in ("hold", "cancel", "run"):
            raise InvalidJob(f"on_dead is {self.on_dead!r}; it must be hold, cancel or run")
        values: dict[str, int | str | None] = {
            "kind": self.kind,
            "dedup_key": self.key,
            "group_key": self.group,
            "priority": int(self.priority) or None,
            "delay_ms": _ms(self.delay, "delay"),
            "due_at": _utc(self.due_at, "due_at"),
            "start_within_ms": _ms(self.start_within, "start_within"),
            "start_by": _utc(self.start_by, "start_by"),
            "headers": _object(self.headers),
            "max_attempts": None if self.max_attempts is None else int(self.max_attempts),
            "time_limit_ms": _ms(self.time_limit, "time_limit"),
            "correlation_id": None if self.correlation_id is None else str(UUID(str(self.correlation_id))),
            "batch_id": None if self.batch is None else int(self.batch),
            "needs": _object(self.needs),
        }
        settings = {name: value for name, value in values.items() if value is not None}
        payload = encoded(self.payload)
        data = b"null" if payload is None else bytes(payload)
        return Prepared(data, settings, [int(parent) for parent in self.after], self.on_dead)


def _check_key(name: str, key: str | None, longest: int) -> None:
    if key is None:
        return
    units = len(key.encode("utf-16-le", "surrogatepass")) // 2
    if not 1 <= units <= longest or key != key.strip(" ") or re.search("[\x00-\x1f\ud800-\udfff]", key):
        raise InvalidJob(
            f"the {name} is {key!r}; it must have 1 to {longest} characters, no control characters, and no spaces at "
            "its ends"
        )


def _ms(value: Seconds | None, name: str) -> int | None:
    return None if value is None else round(in_seconds(value, name) * 1000)


def _utc(time: datetime | None, name: str) -> str | None:
    if time is None:
        return None
    if time.tzinfo is None:
        raise ValueError(f"{name} is {time}, without a time zone; write datetime(…, tzinfo=timezone.utc)")
    return time.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds")


def _object(value: Mapping[str, Any] | None) -> str | None:
    # ASCII, because drivers treat control characters and lone surrogates differently.
    return None if value is None else json.dumps(dict(value), separators=(",", ":"))


def parts(jobs: Iterable[object], limits: Limits) -> Iterator[list[Prepared]]:
    """Divides the jobs into calls. Anything but a `NewJob` is a payload."""
    part: list[Prepared] = []
    parameters = size = 0
    for job in jobs:
        prepared = (job if isinstance(job, NewJob) else NewJob(job)).prepared()
        own = 1 + sum(isinstance(value, str) for value in prepared.settings.values())
        is_over = parameters + own > limits.parameters or size + len(prepared.payload) > limits.size
        if part and (is_over or len(part) == limits.rows):
            yield part
            part, parameters, size = [], 0, 0
        part.append(prepared)
        parameters += own
        size += len(prepared.payload)
    if part:
        yield part
