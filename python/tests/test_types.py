"""The package and its tests are typed. Needs mypy."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import SOURCES, variables


@unittest.skipIf(importlib.util.find_spec("mypy") is None, "mypy is not installed")
class Types(unittest.TestCase):
    def test_mypy_finds_nothing(self) -> None:
        with tempfile.TemporaryDirectory() as cache:
            checked = [str(SOURCES), str(pathlib.Path(__file__).parent)]
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, *checked],
                env=variables(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
