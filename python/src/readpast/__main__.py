"""`python -m readpast …` runs the program `readpast …`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NoReturn

from ._program import environment, find_program
from .exceptions import ProgramNotFound


def main() -> NoReturn:
    try:
        program = find_program()
    except ProgramNotFound as error:
        sys.exit(f"readpast: {error}")
    command = [program, *sys.argv[1:]]
    if os.name != "nt":
        os.execve(program, command, environment())
    try:
        code = subprocess.call(command, env=environment())
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
