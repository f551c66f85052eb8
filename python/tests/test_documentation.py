"""The pages' Python runs, and so does the example."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import textwrap
import unittest
from typing import Any, ClassVar
from unittest import mock

from readpast import _drivers, testing, worker
from readpast._drivers import Settings, Unsuitable
from support import PATIENCE_S, REPOSITORY, ScriptTest, needs_posix, needs_program, variables

GUIDE = REPOSITORY / "docs" / "python.md"
PAGES = [GUIDE, *(REPOSITORY / page for page in ("README.md", "docs/start.md", "docs/enqueue.md", "python/README.md"))]


def blocks(page: Any) -> list[str]:
    found = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, page
    return [textwrap.dedent(block) for block in found]


def connection_to(url: str) -> Any:
    """A connection of any driver, with a transaction; None without a driver."""
    for driver in _drivers.DRIVERS:
        try:
            connection = driver.connect(__import__(driver.module), Settings(url))
        except (ImportError, Unsuitable):
            continue
        connection.cursor().execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY)")
        if callable(connection.autocommit):
            connection.autocommit(False)
        else:
            connection.autocommit = False
        return connection
    return None


@unittest.skipUnless(GUIDE.exists(), "the guide is not here")
class Guide(ScriptTest):
    url: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        context = testing.server("prices", "thumbnails")
        cls.addClassCleanup(context.__exit__, None, None, None)
        cls.url = context.__enter__()

    def run_script(self, path: str, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, path, *arguments], env=variables(READPAST_URL=self.url), cwd=self.folder, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=PATIENCE_S,
        ).stdout  # fmt: skip

    @needs_program
    @needs_posix
    def test_the_guide_runs(self) -> None:
        self.addCleanup(worker.handlers.clear)
        connection = connection_to(self.url)
        if connection is not None:
            self.addCleanup(connection.close)
        names: dict[str, Any] = {"connection": connection}
        with mock.patch.dict(os.environ, READPAST_URL=self.url), contextlib.redirect_stdout(io.StringIO()) as printed:
            for block in blocks(GUIDE):
                if "worker.run(" in block:
                    process = self.start_worker(block)
                    # Its handlers are for the other blocks.
                    with mock.patch.object(worker, "run"):
                        exec(block, names)
                elif "connection" not in block or connection is not None:
                    exec(block, names)
        self.assertRegex(printed.getvalue(), r"""^\d+ False\nb'{"total":42}'\n$""")
        self.assertEqual(testing.run("import", {"pages": 2}).checkpoints, [b"1", b"2"])
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def start_worker(self, block: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, self.script(block, "prices.py")]
        process = subprocess.Popen(
            command, env=variables(READPAST_URL=self.url), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_every_block_compiles(self) -> None:
        for page in PAGES:
            for block in blocks(page):
                compile(block, str(page), "exec")

    @needs_program
    @needs_posix
    def test_the_example_makes_thumbnails(self) -> None:
        example = str(REPOSITORY / "examples" / "python" / "thumbnails.py")
        self.assertEqual(self.run_script(example, "enqueue"), "100 jobs\n")
        self.assertIn("100 done", self.run_script(example))
        self.assertEqual(len(list((self.folder / "thumbnails").iterdir())), 100)


if __name__ == "__main__":
    unittest.main()
