"""The pages' Python runs, and so does the example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import unittest
from typing import Any, ClassVar, Dict, List
from unittest import mock

from readpast import _drivers, testing, worker
from readpast._drivers import Settings, Unsuitable
from support import PATIENCE_S, REPOSITORY, ScriptTest, needs_posix, needs_program, variables

GUIDE = REPOSITORY / "docs" / "python.md"
PAGES = (GUIDE, REPOSITORY / "python" / "README.md")


def blocks(page: Any) -> List[str]:
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
        names: Dict[str, Any] = {"connection": connection}
        scripts = 0
        with mock.patch.dict(os.environ, READPAST_URL=self.url):
            for block in blocks(GUIDE):
                code = compile(block, str(GUIDE), "exec")
                if "worker.run(" in block:
                    # Once as it stands, and then its handlers for the other blocks.
                    self.script(_drained(block), "worker.py")
                    scripts += 1
                    with mock.patch.object(worker, "run"):
                        exec(code, names)
                elif "connection" in block and connection is None:
                    continue
                elif "result(job" in block:
                    # While a worker runs.
                    exec(compile(block.replace("queue.result(", "waited(queue, "), str(GUIDE), "exec"), {**names, "waited": self.waited})
                    exec("from readpast import NewJob, Queue", names)
                else:
                    exec(code, names)
        self.assertEqual(scripts, 1)

    def waited(self, queue: Any, job_id: int, timeout: float) -> None:
        self.run_script(str(self.folder / "worker.py"))
        self.assertEqual(queue.result(job_id, timeout), b'{"total":42}')

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


def _drained(block: str) -> str:
    drained, count = re.subn(r"worker\.run\((.*)\)", r"worker.run(\1, drain=True)", block)
    assert count == 1, block
    return drained


if __name__ == "__main__":
    unittest.main()
