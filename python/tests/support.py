"""What the tests share: a worker's end of the pipes, the program, and scripts."""

from __future__ import annotations

import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from typing import Any

from readpast import ProgramNotFound
from readpast._program import environment, find_program

SOURCES = pathlib.Path(__file__).parents[1] / "src"
REPOSITORY = SOURCES.parents[1]

#: For everything that a test awaits, in seconds. It only passes if something is wrong.
PATIENCE_S = 60


def has_program() -> bool:
    try:
        find_program()
    except ProgramNotFound:
        return False
    return True


needs_program = unittest.skipUnless(has_program(), "the program readpast was not found")
needs_posix = unittest.skipIf(os.name == "nt", "Windows has no SIGTERM")


def variables(**more: str) -> dict[str, str]:
    """The environment of a script that imports the package."""
    return {**os.environ, "PYTHONPATH": str(SOURCES), **more}


def readpast(url: str, *arguments: str) -> list[dict[str, Any]]:
    """The lines that the program prints."""
    command = [find_program(), "--json", *arguments]
    inherited = {**environment(url), "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(command, env=inherited, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


class ScriptTest(unittest.TestCase):
    """Tests that write scripts into a folder of their own."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def script(self, text: str, name: str = "script.py") -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    def worker(self, handlers: str, run: str = "worker.run('queue')") -> str:
        """A worker script with these handlers."""
        body = textwrap.dedent(handlers)
        return self.script(f"import os, sys, time\nimport readpast\nfrom readpast import worker\n{body}\n{run}\n")

    def served(self, handlers: str, run: str = "worker.run('queue')", **more: str) -> Served:
        """A worker script's process, with this test as its worker."""
        served = Served([sys.executable, self.worker(handlers, run)], **more)
        self.addCleanup(served.kill)
        return served


class Served:
    """A program that stays, started as `readpast work --keep` does."""

    def __init__(self, command: list[str], **more: str) -> None:
        inherited = {name: value for name, value in variables().items() if name != "_READPAST_SERVES"}
        self.process = subprocess.Popen(
            command, env={**inherited, "READPAST_RUN": "run 1", **more}, bufsize=0, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._rest = b""
        self.job_id = 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def send(self, payload: bytes = b"{}", checkpoint: bytes | None = None, **fields: Any) -> int:
        """Sends a job with its bytes."""
        sizes = {"payload_bytes": len(payload)}
        if checkpoint is not None:
            sizes["checkpoint_bytes"] = len(checkpoint)
        return self.send_line(payload + (checkpoint or b""), **sizes, **fields)

    def send_line(self, after: bytes = b"", **fields: Any) -> int:
        self.job_id += 1
        job = {"job_id": self.job_id, "attempt": 1, "max_attempts": 5, "fence": 1, **fields}
        self.write(json.dumps(job).encode() + b"\n" + after)
        return self.job_id

    def read(self) -> tuple[dict[str, Any], bytes]:
        """A line of the program, and the bytes after it."""
        while b"\n" not in self._rest:
            self._more()
        line, _, self._rest = self._rest.partition(b"\n")
        fields: dict[str, Any] = json.loads(line)
        length = fields.get("output_bytes") or fields.get("checkpoint_bytes") or 0
        while len(self._rest) < length:
            self._more()
        data, self._rest = self._rest[:length], self._rest[length:]
        return fields, data

    def _more(self) -> None:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        chunk = os.read(self.process.stdout.fileno(), 1 << 20) if ready else b""
        if not chunk:
            self.process.kill()
            assert self.process.stderr is not None
            raise AssertionError(f"the program wrote nothing more: {self.process.stderr.read()!r}")
        self._rest += chunk

    def hello(self, **more: int) -> Served:
        line, _ = self.read()
        assert line == {"protocol": 1, "bytes": True, "stop": True, **more}, line
        return self

    def run(
        self, payload: bytes = b"{}", checkpoint: bytes | None = None, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Sends a job and returns the reply, without its job_id."""
        job_id = self.send(payload, checkpoint, **fields)
        reply, data = self.read()
        assert reply.pop("job_id") == job_id, reply
        return reply, data

    def terminate(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)

    def end(self) -> tuple[int, str]:
        """Closes the program's input. Returns its exit code, and what it wrote to standard error."""
        assert self.process.stdin is not None and self.process.stderr is not None
        self.process.stdin.close()
        errors = self.process.stderr.read().decode()
        assert self.process.stdout is not None
        left = self._rest + self.process.stdout.read()
        assert left == b"", left
        return self.process.wait(PATIENCE_S), errors


def await_that(condition: Any) -> Any:
    """Looks until it is true. For what only another process can tell."""
    limit = time.monotonic() + PATIENCE_S
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < limit, "it did not become true"
        time.sleep(0.01)
