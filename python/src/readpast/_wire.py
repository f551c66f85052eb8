"""Protocol 1 from the program's side (docs/protocol.md): jobs come from a pipe, notes and replies go into another."""

from __future__ import annotations

import io
import json
import os
import select
import threading
from typing import Any

from ._job import Job, Notes, data_of
from ._payloads import Payload

#: What the program asks for: raw bytes, and a line when the worker is told to stop.
FIRST_LINE = b'{"protocol":1,"bytes":true,"stop":true}\n'
FIRST_LINE_AHEAD = b'{"protocol":1,"bytes":true,"stop":true,"ahead":%d}\n'

#: The most that one read takes: the size of a pipe on Linux.
CHUNK = 65_536

#: Output up to this size is appended to its line, so that both need only one write.
SMALL = 65_536

_parse = json.JSONDecoder().raw_decode


class Request:
    __slots__ = ("checkpoint", "fields", "payload")

    def __init__(self, fields: dict[str, Any], payload: Payload, checkpoint: bytes | None) -> None:
        self.fields = fields
        self.payload = payload
        self.checkpoint = checkpoint


class Wire(Notes):
    """The two pipes to the worker."""

    def __init__(self, reads: int, writes: int) -> None:
        self._input = io.FileIO(reads, "rb")
        self._output = writes
        #: What was read, from the place `_at` on not yet used.
        self._rest = b""
        self._at = 0
        self._is_stopping = False
        self._poll: Any | None = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(reads, select.POLLIN)
        #: Held for each line: a handler's threads may use the job, too.
        self._lock = threading.Lock()
        #: The fields of the running job. Not its id: the next attempt may run here, too, while a thread of this one
        #: goes on.
        self._running: dict[str, Any] | None = None

    def close(self) -> None:
        if not self._input.closed:
            self._input.close()
            # The number may soon be another file's.
            output, self._output = self._output, -1
            os.close(output)

    def forget(self) -> None:
        """In a child of this process, whose job is its parent's. Another thread may have held the lock."""
        self._lock = threading.Lock()
        self._running = None
        self.close()

    def ask(self, ahead: int) -> None:
        self._write(FIRST_LINE_AHEAD % ahead if ahead else FIRST_LINE)

    def next(self) -> Request | None:
        """Waits for a job; None once the worker has closed the pipe."""
        while True:
            line = self._line()
            if line is None:
                return None
            fields, _ = _parse(line)
            if "job_id" in fields:
                break
            self._is_stopping = self._is_stopping or fields.get("stop") is True
        length = fields.get("payload_bytes")
        if length is None:
            payload: Payload = data_of(fields, "payload") or b""
            checkpoint = data_of(fields, "checkpoint")
        else:
            payload = self._bytes(length)
            length = fields.get("checkpoint_bytes")
            checkpoint = None if length is None else bytes(self._bytes(length))
        self._running = fields
        return Request(fields, payload, checkpoint)

    def _line(self) -> str | None:
        end = self._rest.find(b"\n", self._at)
        while end < 0:
            unfinished = len(self._rest) - self._at
            if not self._read_more():
                return None
            end = self._rest.find(b"\n", unfinished)
        line = self._rest[self._at : end]
        self._at = end + 1
        return line.decode()

    def _read_more(self) -> bool:
        """Adds to what is not yet used; False at the end of the pipe."""
        chunk = self._input.read(CHUNK)
        self._rest = self._rest[self._at :] + (chunk or b"")
        self._at = 0
        return bool(chunk)

    def _bytes(self, length: int) -> Payload:
        at = self._at
        if len(self._rest) - at >= length:
            self._at = at + length
            return self._rest[at : self._at]
        data = bytearray(length)
        rest = len(self._rest) - at
        data[:rest] = self._rest[at:]
        self._rest, self._at = b"", 0
        with memoryview(data) as view:
            while rest < length:
                count = self._input.readinto(view[rest:])
                if not count:
                    raise EOFError("the worker closed the pipe in the middle of a job")
                rest += count
        return data

    def is_stopping(self) -> bool:
        with self._lock:
            while self._running is not None and not self._is_stopping:
                self._is_stopping = self._has_stop_line()
                if self._is_stopping or not self._is_readable():
                    break
                # The worker closes the pipe when it ends.
                self._is_stopping = not self._read_more()
            return self._is_stopping

    def _has_stop_line(self) -> bool:
        """Whether the worker has been told to stop, by what was read; jobs may come before that line."""
        at = self._at
        while (end := self._rest.find(b"\n", at)) >= 0:
            fields, _ = _parse(self._rest[at:end].decode())
            if "job_id" not in fields:
                return fields.get("stop") is True
            at = end + 1 + fields.get("payload_bytes", 0) + fields.get("checkpoint_bytes", 0)
        return False

    def _is_readable(self) -> bool:
        # Windows cannot look into a pipe.
        return self._poll is not None and bool(self._poll.poll(0))

    def write(self, job: Job, fields: dict[str, object], checkpoint: bytes | None = None) -> None:
        if checkpoint is not None:
            fields = {**fields, "checkpoint_bytes": len(checkpoint)}
        line = _line_of(job.id, fields) + (checkpoint or b"")
        with self._lock:
            if self._running is None or self._running is not job._fields:
                raise RuntimeError(f"job {job.id} does not run in this process, or has ended")
            self._write(line)

    def done(self, job_id: int, output: bytes | memoryview | None) -> None:
        self._end()
        if output is None:
            self._write(b'{"job_id":%d}\n' % job_id)
            return
        line = b'{"job_id":%d,"output_bytes":%d}\n' % (job_id, len(output))
        if len(output) <= SMALL:
            self._write(line + output)
        else:
            self._write(line)
            self._write(output)

    def failed(self, job_id: int, fields: dict[str, object]) -> None:
        self._end()
        self._write(_line_of(job_id, fields))

    def _end(self) -> None:
        with self._lock:
            self._running = None

    def _write(self, data: bytes | memoryview) -> None:
        written = os.write(self._output, data)
        while written < len(data):
            data = memoryview(data)[written:]
            written = os.write(self._output, data)


def _line_of(job_id: int, fields: dict[str, object]) -> bytes:
    text = json.dumps({"job_id": job_id, **fields}, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate, as in file names that are not UTF-8, cannot be encoded.
    return text.encode(errors="replace") + b"\n"
