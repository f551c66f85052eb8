"""For tests: a stand-in for SQL Server, and handlers without a server."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Literal

from . import worker
from ._job import Job, Notes
from ._payloads import encoded
from ._program import environment, find_program
from ._serve import Handler, failure, handler_for
from ._wire import Request

__all__ = ["Result", "run", "server"]

Ending = Literal["done", "retry", "snooze", "move", "dead"]


@contextlib.contextmanager
def server(*queues: str) -> Iterator[str]:
    """Runs `readpast dev`, an in-memory stand-in for SQL Server, and yields its connection string.

    It has these queues, which keep outputs, and a queue `default`. It ends with the `with` block. `worker.run` never
    leaves the block: run workers in a process of their own.
    """
    # Without TLS: not every driver can be told to trust the certificate.
    command = [find_program(), "dev", "--json", "--tls", "off"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment())
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"readpast dev has exited with code {process.wait()}")
        url = str(json.loads(line)["url"])
        for queue in queues:
            create = [find_program(), "queue", "create", queue, "--completion", "annotate"]
            subprocess.run(create, env=environment(url), stdout=subprocess.DEVNULL, check=True)
        yield url
    finally:
        process.terminate()
        process.communicate()


@dataclass
class Result:
    """The outcome of a job, and what its handler reported."""

    outcome: Ending = "done"
    output: bytes | None = None
    #: The job's error: a message, or a traceback.
    error: str | None = None
    #: What the handler raised.
    exception: BaseException | None = None
    #: The fractions and texts of `Job.progress`.
    progress: list[tuple[float, str]] = field(default_factory=list)
    checkpoints: list[bytes] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


class _Recorder(Notes):
    def __init__(self, result: Result, stopping: bool) -> None:
        self.result = result
        self.stopping = stopping

    def write(self, job: Job, fields: dict[str, object], checkpoint: bytes | None = None) -> None:
        if "progress" in fields:
            self.result.progress.append((float(str(fields["progress"])), str(fields.get("progress_text", ""))))
        if "log" in fields:
            self.result.log.append(str(fields["log"]))
        if checkpoint is not None:
            self.result.checkpoints.append(checkpoint)

    def is_stopping(self) -> bool:
        return self.stopping


def run(
    handler: str | Callable[..., object],
    payload: object,
    *,
    checkpoint: object = None,
    stopping: bool = False,
    headers: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Result:
    """Runs a job as a worker would, in this process and without a server.

    Args:
        handler: a function, or the kind of a job.
        payload: as for `Queue.enqueue`.
        checkpoint: the checkpoint of an earlier attempt, as for `Job.save`.
        stopping: the value of `Job.stopping`.
        fields: other fields of the job as the worker would send them, such as `attempt=2`.
    """
    job: dict[str, Any] = {"job_id": 1, "attempt": 1, "max_attempts": 5, "fence": 1, "headers": headers, **fields}
    if isinstance(handler, str):
        job["kind"] = handler
    data = encoded(payload)
    saved = encoded(checkpoint)
    request = Request(job, b"null" if data is None else bytes(data), None if saved is None else bytes(saved))
    result = Result()
    try:
        found = handler_for(worker.handlers, handler) if isinstance(handler, str) else Handler(handler)
        output = found.run(request, _Recorder(result, stopping))
        result.output = None if output is None else bytes(output)
    except (Exception, SystemExit) as error:
        reply = failure(error)
        result.exception = error
        result.error = str(reply["error"])
        ends: dict[str, Ending] = {"dead": "dead", "snooze_s": "snooze", "move_to": "move"}
        result.outcome = next((ending for name, ending in ends.items() if name in reply), "retry")
    return result
