"""Enqueues with the program `readpast`, if no driver is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from ._job import data_of
from ._new_job import End, Enqueued, Limits, Prepared, added
from ._program import environment, find_program
from .exceptions import Error, InvalidJob, QueueFull, UnknownQueue

#: Exit codes of the program (docs/cli.md). `wait` has 0 for done, 9 for dead and 10 for cancelled.
INVALID = 2
UNKNOWN = 3
REFUSED = 4
TIMED_OUT = 8
FINISHED = (0, 9, 10)


#: Fields of a line of `readpast enqueue --format json` whose names differ from those in the procedures.
FIELDS = {"dedup_key": "key", "group_key": "group", "batch_id": "batch"}

#: Longer payloads are sent in hexadecimal digits.
LONGEST_TEXT = 1 << 20


class Program:
    """The calls of one queue, each by a process of its own."""

    limits = Limits(rows=10_000, parameters=sys.maxsize, size=64 << 20)

    def __init__(self, url: str, queue: str, schema: str) -> None:
        self.url = url
        self.queue = queue
        self.schema = schema

    def enqueue(self, job: Prepared) -> Enqueued:
        return self.enqueue_list([job])[0]

    def enqueue_list(self, jobs: Sequence[Prepared]) -> list[Enqueued]:
        # Not arguments: other users can see those.
        lines = b"".join(json.dumps(_line(job)).encode() + b"\n" for job in jobs)
        code, output, errors = self._run(["enqueue", "--format=json", "--ids", "--", self.queue], lines)
        # A program that was killed may have written the last line in part.
        enqueued = [Enqueued(**json.loads(line)) for line in output.splitlines(keepends=True) if line.endswith("\n")]
        if code != 0:
            error = _error(code, errors)
            error.added = added(enqueued)
            raise error
        return enqueued

    def end_of(self, job_id: int, timeout: float | None) -> End | None:
        """How a job has ended; None if it has not within the timeout."""
        options = [] if timeout is None else [f"--timeout={round(timeout * 1000)}ms"]
        code, output, errors = self._run(["wait", *options, "--", str(int(job_id))])
        if code == TIMED_OUT:
            return None
        if code == UNKNOWN:
            return End("gone", None, None)
        if code not in FINISHED:
            raise _error(code, errors)
        end = json.loads(output)
        return End(end["end"], end["error"], data_of(end, "output"))

    def _run(self, arguments: list[str], lines: bytes = b"") -> tuple[int, str, str]:
        command = [find_program(), "--json", "--schema", self.schema, *arguments]
        done = subprocess.run(command, input=lines, capture_output=True, env=environment(self.url), check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace").strip()


def _error(code: int, text: str) -> Error:
    """The error that the program reports. Only its last message is the error's."""
    message = text.rpartition("readpast: ")[2]
    if message.startswith("error: "):
        # Of the parser of options: hints and the usage follow.
        message = message[len("error: ") :].partition("\n\n")[0]
    if code == UNKNOWN:
        error: Error = UnknownQueue(message)
    elif code == REFUSED and "is full" in message:
        error = QueueFull(message)
    elif code in (INVALID, REFUSED):
        error = InvalidJob(message)
    else:
        error = Error(message)
    return error


def _headers(job: Prepared) -> dict[str, str]:
    headers: dict[str, str] = json.loads(str(job.settings.get("headers", "{}")))
    if any(not isinstance(value, str) for value in headers.values()):
        raise InvalidJob("without a driver, the values of headers must be text")
    return headers


def _line(job: Prepared) -> dict[str, object]:
    """A job for `readpast enqueue --format json`."""
    line: dict[str, object] = {"after": job.after, "on_dead": job.on_dead} if job.after else {}
    for name, value in job.settings.items():
        if name.endswith("_ms"):
            line[name[: -len("_ms")] + "_s"] = int(value) / 1000
        elif name in ("due_at", "start_by"):
            line[name] = f"{value}Z"
        elif name == "headers":
            line[name] = _headers(job)
        elif name == "needs":
            line[name] = json.loads(str(value))
        else:
            line[FIELDS.get(name, name)] = value
    try:
        # JSON may take six characters for a byte.
        text = job.payload.decode() if len(job.payload) <= LONGEST_TEXT else None
    except UnicodeDecodeError:
        text = None
    line.update({"payload_hex": job.payload.hex()} if text is None else {"payload": text})
    return line
