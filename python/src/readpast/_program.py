"""Finds the program `readpast`, which is part of the package's wheel."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping

from .exceptions import ProgramNotFound

#: The path of another program, for development. The program does not get it, because it refuses unknown settings.
VARIABLE = "READPAST_PROGRAM"


def find_program() -> str:
    """The path of the program.

    Looks at the variable READPAST_PROGRAM, where the package was installed, and in PATH.

    Raises:
        ProgramNotFound: if there is none.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        if not os.path.isfile(chosen):
            raise ProgramNotFound(f"{VARIABLE} is {chosen}, which is not a file")
        return chosen
    name = "readpast.exe" if os.name == "nt" else "readpast"
    for folder in _script_folders():
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    found = shutil.which("readpast")
    if found is None:
        raise ProgramNotFound(
            "the program readpast was not found, neither next to this Python nor in PATH; install the package from its "
            "wheel, or put the program into PATH"
        )
    return found


def _script_folders() -> Iterator[str]:
    yield sysconfig.get_path("scripts")
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else f"{os.name}_user"
    yield sysconfig.get_path("scripts", user)
    # pip install --target and --prefix put it beside the package.
    package = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(os.path.dirname(package), "bin")
    yield os.path.join(sys.prefix, "Scripts" if os.name == "nt" else "bin")


def environment(url: str | None = None) -> dict[str, str]:
    """The environment for the program. It has the connection string, because other users can see a command line."""
    variables: Mapping[str, str] = os.environ
    inherited = {name: value for name, value in variables.items() if name != VARIABLE}
    return inherited if url is None else {**inherited, "READPAST_URL": url}
