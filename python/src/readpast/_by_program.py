"""Enqueues with the program `readpast`, where no driver is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._program import environment, needs_program
from ._new_job import Enqueued, NewJob
from .exceptions import Error, InvalidJob, QueueFull, UnknownQueue

#: Exit codes of the program (docs/cli.md). `wait` has 0 for done, 9 for dead and 10 for cancelled.
INVALID = 2
UNKNOWN = 3
REFUSED = 4
TIMED_OUT = 8
FINISHED = (0, 9, 10)


class Program:
    """The calls of one queue, each by a process of its own."""

    def __init__(self, url: Optional[str], queue: str, schema: str) -> None:
        self.url = url
        self.queue = queue
        self.schema = schema

    def enqueue(self, job: NewJob) -> Enqueued:
        settings = job.checked().settings()
        _check_headers(job)
        options = [f"--header={name}={value}" for name, value in (job.headers or {}).items()]
        for name, option in (("kind", "kind"), ("dedup_key", "key"), ("group_key", "group"), ("priority", "priority"),
                             ("correlation_id", "correlation-id"), ("max_attempts", "max-attempts"),
                             ("batch_id", "batch")):  # fmt: skip
            if name in settings:
                options.append(f"--{option}={settings[name]}")
        for name, option in (("delay_ms", "delay"), ("start_within_ms", "start-within"), ("time_limit_ms", "time-limit")):
            if name in settings:
                options.append(f"--{option}={settings[name]}ms")
        for name, option in (("due_at", "at"), ("start_by", "start-by")):
            if name in settings:
                options.append(f"--{option}={settings[name]}Z")
        for name, number in (job.needs or {}).items():
            options.append(f"--{name}={number}" if name in ("memory", "threads") else f"--token={name}={number}")
        options += [f"--after={int(parent)}" for parent in job.after]
        if job.after:
            options.append(f"--on-dead={job.on_dead}")
        # Not an argument: others can see those, and their size is limited.
        file, path = tempfile.mkstemp(prefix="readpast-")
        try:
            with open(file, "wb") as payload:
                payload.write(job.data())
            reply = self._call(["enqueue", f"--file={path}", *options, "--", self.queue])
        finally:
            os.remove(path)
        return Enqueued(reply["job_id"], reply["duplicate"])

    def enqueue_list(self, jobs: Sequence[NewJob]) -> Tuple[int, int]:
        """Returns how many jobs were added, and how many were duplicates."""
        lines = b"".join(json.dumps(_line(job.checked())).encode() + b"\n" for job in jobs)
        reply = self._call(["enqueue", "--format=json", "--", self.queue], lines)
        return reply["enqueued"], reply["duplicates"]

    def wait(self, job_id: int, timeout: Optional[float]) -> Optional[Dict[str, Any]]:
        """How the job has ended; None after the timeout."""
        options = [] if timeout is None else [f"--timeout={round(timeout * 1000)}ms"]
        code, output, errors = self._run(["wait", *options, "--", str(int(job_id))])
        if code == TIMED_OUT:
            return None
        if code not in FINISHED:
            raise _error(code, errors)
        return dict(json.loads(output))

    def _call(self, arguments: List[str], lines: bytes = b"") -> Dict[str, Any]:
        code, output, errors = self._run(arguments, lines)
        if code != 0:
            raise _error(code, errors)
        return dict(json.loads(output))

    def _run(self, arguments: List[str], lines: bytes = b"") -> Tuple[int, str, str]:
        command = [needs_program(), "--json", "--schema", self.schema, *arguments]
        done = subprocess.run(command, input=lines, capture_output=True, env=environment(self.url), check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace").strip()


def _error(code: int, text: str) -> Error:
    """The error that the program reports. Its last message says what is wrong."""
    message = text.rpartition("readpast: ")[2]
    if code == UNKNOWN:
        error: Error = UnknownQueue(message)
    elif code == REFUSED and "is full" in message:
        error = QueueFull(message)
    elif code in (INVALID, REFUSED):
        error = InvalidJob(message)
    else:
        error = Error(message)
    added = re.search(r"readpast: (\d+) jobs? enqueued, from the first", text)
    error.added = int(added[1]) if added else 0
    return error


def _check_headers(job: NewJob) -> None:
    if any(not isinstance(value, str) for value in (job.headers or {}).values()):
        raise InvalidJob("without a driver, the values of headers must be text")


def _line(job: NewJob) -> Dict[str, object]:
    """A job for `readpast enqueue --format json`."""
    _check_headers(job)
    if job.after:
        raise InvalidJob("without a driver, enqueue_many cannot add jobs that wait for others; use enqueue")
    settings = job.settings()
    renamed = {"dedup_key": "key", "group_key": "group", "batch_id": "batch"}
    line: Dict[str, object] = {}
    for name, value in settings.items():
        if name.endswith("_ms"):
            line[name[: -len("_ms")] + "_s"] = int(value) / 1000
        elif name in ("due_at", "start_by"):
            line[name] = f"{value}Z"
        elif name in ("headers", "needs"):
            line[name] = json.loads(str(value))
        else:
            line[renamed.get(name, name)] = value
    data = bytes(job.data())
    try:
        line["payload"] = data.decode()
    except UnicodeDecodeError:
        line["payload_hex"] = "0x" + data.hex()
    return line
