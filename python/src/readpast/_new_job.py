"""Jobs to enqueue."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal, NamedTuple
from uuid import UUID

from ._payloads import encoded
from .exceptions import InvalidJob, Seconds, seconds_of

OnDead = Literal["hold", "cancel", "run"]

#: What the procedures allow (sql/205_check_job.sql, 207_latest_start.sql, 210_enqueue.sql, 198_check_needs.sql).
DURATIONS_S = {"delay": (0, 315_360_000), "start_within": (0.001, 315_360_000), "time_limit": (0.001, 2_147_483.647)}
MOST_NEEDED = {"memory": 1 << 50, "threads": 1_024}
MOST_TOKENS = 1_000_000
LONGEST_HEADERS = 1_300
LONGEST_NEEDS = 1_000

#: The largest smallint, int and bigint.
SMALLINT, INT, BIGINT = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1

#: They can be iterated, but are no lists.
NO_LISTS = (str, bytes, bytearray, memoryview, Mapping)


class Enqueued(NamedTuple):
    """The result of enqueueing a job."""

    job_id: int
    #: Nothing was added, because the job `job_id` has the same key and has not ended.
    duplicate: bool


def added(jobs: Sequence[Enqueued]) -> int:
    """How many of the jobs are no duplicates."""
    return sum(not job.duplicate for job in jobs)


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
    on_dead: OnDead = "hold"

    def prepared(self) -> Prepared:
        """The job as it is sent.

        Raises:
            InvalidJob: if SQL Server would refuse a value.
            TypeError, ValueError: if a value has the wrong type, or the payload cannot be sent.
        """
        if isinstance(self.payload, NewJob):
            if self != NewJob(self.payload):
                raise TypeError("the payload is a NewJob, which has its own kind and so on; pass only the NewJob")
            return self.payload.prepared()
        if self.kind is not None:
            check_name("kind", self.kind)
        _check_key("key", self.key, 256)
        _check_key("group", self.group, 128)
        if self.on_dead not in ("hold", "cancel", "run"):
            raise InvalidJob(f"on_dead is {self.on_dead!r}; it must be hold, cancel or run")
        if self.delay is not None and self.due_at is not None:
            raise InvalidJob("delay and due_at cannot be combined")
        if self.start_within is not None and self.start_by is not None:
            raise InvalidJob("start_within and start_by cannot be combined")
        values: dict[str, int | str | None] = {
            "kind": self.kind,
            "dedup_key": self.key,
            "group_key": self.group,
            "priority": _integer("priority", self.priority, -SMALLINT - 1, SMALLINT) or None,
            "delay_ms": _ms(self.delay, "delay"),
            "due_at": _utc(self.due_at, "due_at"),
            "start_within_ms": _ms(self.start_within, "start_within"),
            "start_by": _utc(self.start_by, "start_by"),
            "headers": _headers(self.headers),
            "max_attempts": None if self.max_attempts is None else _integer("max_attempts", self.max_attempts, 1, INT),
            "time_limit_ms": _ms(self.time_limit, "time_limit"),
            "correlation_id": _uuid(self.correlation_id),
            "batch_id": None if self.batch is None else _integer("batch", self.batch, 1, BIGINT),
            "needs": _needs(self.needs),
        }
        settings = {name: value for name, value in values.items() if value is not None}
        payload = encoded(self.payload)
        data = b"null" if payload is None else bytes(payload)
        return Prepared(data, settings, _parents(self.after), self.on_dead)


def _check_type(name: str, value: object, expected: type | tuple[type, ...], text: str) -> None:
    if not isinstance(value, expected):
        raise TypeError(f"{name} is {value!r}; it must be {text}")


def check_name(what: str, name: str) -> None:
    """Raises TypeError or InvalidJob if it is no kind or name of a need."""
    _check_type(what, name, str, "text")
    if not re.fullmatch("[!-~]{1,64}", name):
        raise InvalidJob(f"{what} is {name!r}; it must have 1 to 64 printable ASCII characters, no spaces")


def _check_key(name: str, key: str | None, longest: int) -> None:
    if key is None:
        return
    _check_type(name, key, str, "text")
    units = len(key.encode("utf-16-le", "surrogatepass")) // 2
    if not 1 <= units <= longest or key != key.strip(" ") or re.search("[\x00-\x1f\ud800-\udfff]", key):
        raise InvalidJob(
            f"{name} is {key!r}; it must have 1 to {longest} characters, no control characters, and no spaces at "
            "its ends"
        )


def _integer(name: str, value: Any, least: int, most: int) -> int:
    # NumPy's integers have __index__, too.
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; it must be an integer")
    number = operator.index(value)
    if not least <= number <= most:
        raise InvalidJob(f"{name} is {number}; it must be {least} to {most}")
    return number


def _ms(value: Seconds | None, name: str) -> int | None:
    if value is None:
        return None
    seconds = seconds_of(value, name)
    least, most = DURATIONS_S[name]
    if not least <= seconds <= most:
        raise InvalidJob(f"{name} is {value}; it must be {least} to {most} seconds")
    return round(seconds * 1000)


def _utc(time: datetime | None, name: str) -> str | None:
    if time is None:
        return None
    _check_type(name, time, datetime, "a datetime with a time zone")
    if time.tzinfo is None:
        raise InvalidJob(f"{name} is {time}, without a time zone; write datetime(…, tzinfo=timezone.utc)")
    return time.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds")


def _uuid(value: UUID | str | None) -> str | None:
    if value is None:
        return None
    _check_type("correlation_id", value, (UUID, str), "a UUID")
    try:
        return str(UUID(str(value)))
    except ValueError:
        raise InvalidJob(f"correlation_id is {value!r}; it must be a UUID") from None


def _headers(headers: Mapping[str, Any] | None) -> str | None:
    if headers is None:
        return None
    _check_type("headers", headers, Mapping, "a mapping")
    for name in headers:
        _check_type("a name in headers", name, str, "text")
        if name.startswith("readpast-"):
            raise InvalidJob(f"a name in headers is {name!r}; it must not begin with readpast-")
    return _object("headers", headers, LONGEST_HEADERS)


def _needs(needs: Mapping[str, int] | None) -> str | None:
    if needs is None:
        return None
    _check_type("needs", needs, Mapping, "a mapping")
    numbers = {}
    for name, number in needs.items():
        check_name("a name in needs", name)
        numbers[name] = _integer(f"the need of {name}", number, 1, MOST_NEEDED.get(name, MOST_TOKENS))
    return _object("needs", numbers, LONGEST_NEEDS)


def _object(name: str, value: Mapping[str, Any], longest: int) -> str:
    try:
        # ASCII, because drivers treat control characters and lone surrogates differently.
        text = json.dumps(dict(value), separators=(",", ":"), allow_nan=False)
    except TypeError as error:
        raise TypeError(f"{name} cannot become JSON: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidJob(f"{name} cannot become JSON: {error}") from None
    if len(text) > longest:
        raise InvalidJob(f"{name} has {len(text)} characters as JSON in ASCII; at most {longest} are allowed")
    return text


def _parents(after: Iterable[int]) -> list[int]:
    if isinstance(after, NO_LISTS) or not isinstance(after, Iterable):
        raise TypeError(f"after is {after!r}; it must be a sequence of job ids")
    return [_integer("an id in after", parent, 1, BIGINT) for parent in after]


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
