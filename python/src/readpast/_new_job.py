"""Jobs to enqueue."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Union
from uuid import UUID

from ._payloads import encoded
from .exceptions import InvalidJob, Seconds, in_seconds


class Enqueued(NamedTuple):
    """What became of a job to enqueue."""

    job_id: int
    #: Nothing was added, because the job `job_id` has the same key and has not ended.
    duplicate: bool


@dataclass(frozen=True)
class NewJob:
    """A job to enqueue. `Queue.enqueue` takes the same arguments."""

    #: Text (`str`), bytes (everything with the buffer protocol), or JSON (everything else).
    payload: object
    #: Chooses the handler.
    kind: Optional[str] = None
    #: While a job with this key has not ended, no other is added.
    key: Optional[str] = None
    #: Jobs of one group run one at a time, in order.
    group: Optional[str] = None
    #: Smaller runs first.
    priority: int = 0
    #: When it is due: after this many seconds, or at this time.
    delay: Optional[Seconds] = None
    due_at: Optional[datetime] = None
    #: It is cancelled if it has not started so many seconds after it was due, or by this time.
    start_within: Optional[Seconds] = None
    start_by: Optional[datetime] = None
    #: A small JSON object for the handler.
    headers: Optional[Mapping[str, Any]] = None
    max_attempts: Optional[int] = None
    #: In seconds.
    time_limit: Optional[Seconds] = None
    #: Your own id, to find the job by.
    correlation_id: Union[UUID, str, None] = None
    batch: Optional[int] = None
    #: What it takes from its worker while it runs: `memory` in bytes, `threads`, and tokens.
    needs: Optional[Mapping[str, int]] = None
    #: It starts when these jobs are done.
    after: Sequence[int] = ()
    #: What becomes of it if one of these dies: `hold`, `cancel` or `run`.
    on_dead: str = "hold"

    def data(self) -> Union[bytes, memoryview]:
        """The payload's bytes. None is JSON, too."""
        data = encoded(self.payload)
        return b"null" if data is None else data

    def checked(self) -> "NewJob":
        """Raises InvalidJob for text that some drivers would send as something else."""
        if self.kind is not None and not re.fullmatch("[!-~]{1,64}", self.kind):
            raise InvalidJob(f"the kind is {self.kind!r}; it must have 1 to 64 printable ASCII characters, no spaces")
        for name, text, longest in (("key", self.key, 256), ("group", self.group, 128)):
            if text is not None and (
                not 1 <= len(text.encode("utf-16-le", "surrogatepass")) // 2 <= longest
                or text != text.strip(" ")
                or re.search("[\x00-\x1f\ud800-\udfff]", text)
            ):
                raise InvalidJob(
                    f"the {name} is {text!r}; it must have 1 to {longest} characters, none of them a control "
                    "character, and no spaces at its ends"
                )
        if self.on_dead not in ("hold", "cancel", "run"):
            raise InvalidJob(f"on_dead is {self.on_dead!r}; it must be hold, cancel or run")
        return self

    def settings(self) -> Dict[str, Union[int, str]]:
        """The values that are set besides the payload and `after`, by their names in the procedures."""
        values: Dict[str, Union[int, str, None]] = {
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
        return {name: value for name, value in values.items() if value is not None}


def _ms(value: Optional[Seconds], name: str) -> Optional[int]:
    return None if value is None else round(in_seconds(value, name) * 1000)


def _utc(time: Optional[datetime], name: str) -> Optional[str]:
    if time is None:
        return None
    if time.tzinfo is None:
        raise ValueError(f"{name} is {time}, without a time zone; write datetime(…, tzinfo=timezone.utc)")
    return time.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds")


def _object(value: Optional[Mapping[str, Any]]) -> Optional[str]:
    # ASCII, because the drivers differ in what they make of control characters and of half surrogate pairs.
    return None if value is None else json.dumps(dict(value), separators=(",", ":"))
