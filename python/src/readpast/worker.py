"""Workers: a function for each kind of job, run by one process per core.

A worker is a script:

    from readpast import worker

    @worker.job("price")
    def price(payload: dict) -> dict:
        return {"total": payload["count"] * payload["price"]}

    worker.run("prices")
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Callable, NoReturn, TypeVar, overload

from ._new_job import check_name
from ._program import environment, find_program
from ._serve import Handler, is_of_one_job, is_served, serve, take_standard_streams
from .exceptions import Error

__all__ = ["job", "run"]

Function = TypeVar("Function", bound=Callable[..., object])

#: The most jobs that the protocol sends ahead (docs/protocol.md).
MOST_AHEAD = 1_000

#: By kind. None has the handler of all other jobs.
handlers: dict[str | None, Handler] = {}

#: To the worker that started this process, if any. Taken at once, because the script may print while it loads.
wire = take_standard_streams() if is_served() else None


@overload
def job(kind: Function) -> Function: ...
@overload
def job(kind: str | None = None) -> Callable[[Function], Function]: ...
def job(kind: Any = None) -> Any:
    """Makes a function the handler of jobs of this kind; without a kind, of all other jobs.

    The function has one or two parameters: the payload, and the `Job`. The annotation of the first chooses the
    payload's form: `str` is text, `bytes` and `memoryview` are bytes, a dataclass gets the fields of a JSON object, and
    everything else is parsed JSON. A result of None is no output, `str` is text, everything with the buffer protocol is
    bytes, and everything else becomes JSON.
    """
    if callable(kind):
        return _add(None, kind)
    if kind is not None:
        check_name("kind", kind)
    return lambda function: _add(kind, function)


def _add(kind: str | None, function: Function) -> Function:
    handler = Handler(function)
    if kind in handlers:
        what = "jobs without a kind of their own" if kind is None else f"kind {kind}"
        raise ValueError(f"there is a handler for {what} already; {handler.name} cannot be another")
    # Its result would be a coroutine, and nothing would run.
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"the handler {handler.name} is async; make it a plain function that calls asyncio.run")
    handlers[kind] = handler
    return function


def run(
    queue: str,
    *,
    url: str | None = None,
    processes: int | None = None,
    drain: bool = False,
    ahead: int = 0,
    options: Sequence[str] = (),
) -> NoReturn:
    """Runs the jobs of a queue. Does not return: the process ends with the exit code of `readpast work`.

    Starts `readpast work QUEUE --keep`, which starts this script in each of its `processes` (by default, one per core).
    There, `run` runs the jobs that the worker sends.

    Except on Windows, the worker replaces this process: `finally`, `with` and `atexit` of the script do not run, and
    what the script has started, such as `testing.server`, continues. Start those in another process.

    Args:
        queue: the queue's name.
        url: the ADO.NET connection string; by default, READPAST_URL.
        processes: how many jobs run at the same time.
        drain: whether to end when the queue has no unfinished job.
        ahead: up to 1,000: how many further jobs a process may get while it runs one. For jobs of less than about a
            millisecond. They wait for that one, but not in other processes.
        options: further options of `readpast work`, such as `["--time-limit", "60s"]`.

    Raises:
        Error: if there is no handler, no program `readpast`, or no script for it to start.
        TypeError, ValueError: if a handler or an argument is invalid.
    """
    if isinstance(options, str):
        raise TypeError(f"options is {options!r}; it must be a list, such as ['--time-limit', '60s']")
    if processes is not None and processes < 1:
        raise ValueError(f"processes is {processes}; it must be 1 or more")
    if not 0 <= ahead <= MOST_AHEAD:
        raise ValueError(f"ahead is {ahead}; it must be 0 to {MOST_AHEAD}")
    if not handlers:
        raise Error("there is no handler: decorate a function with @worker.job before worker.run")
    for handler in handlers.values():
        handler.prepare()
    if wire is not None:
        serve(handlers, wire, ahead)
    if is_imported_by_a_child():
        raise Error("multiprocessing imports this script: put worker.run under `if __name__ == '__main__':`")
    if is_of_one_job():
        raise Error(
            "readpast work has started this program for one job; start it with --keep, or without readpast work"
        )
    _start(queue, url, processes, drain, options)


def is_imported_by_a_child() -> bool:
    """Whether multiprocessing started this process and is importing its parent's script into it."""
    process = sys.modules.get("multiprocessing.process")
    # multiprocessing uses the same attribute to refuse to start processes during this import.
    return process is not None and getattr(process.current_process(), "_inheriting", False)


def _start(queue: str, url: str | None, processes: int | None, drain: bool, options: Sequence[str]) -> NoReturn:
    program = find_program()
    command = [program, "work", queue, "--keep"]
    kinds = [kind for kind in handlers if kind is not None]
    # Commas separate the option's kinds. If a kind contains one, the worker claims all jobs, and the programs snooze
    # those without a handler.
    if len(kinds) == len(handlers) and "," not in "".join(kinds):
        command.append(f"--kinds={','.join(kinds)}")
    if processes is not None:
        command += ["--threads", str(processes)]
    if drain:
        command.append("--drain")
    command += [*options, "--", *this_program()]
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name != "nt":
        # In place of this process, so that signals reach the worker.
        os.execve(program, command, environment(url))
    worker = subprocess.Popen(command, env=environment(url))
    while True:
        try:
            sys.exit(worker.wait())
        except KeyboardInterrupt:
            # The worker got the Ctrl-C, too, and stops.
            pass


def this_program() -> list[str]:
    """The command line of this process, with braces doubled, as `readpast work` expects."""
    arguments: list[str] | None = getattr(sys, "orig_argv", None)
    if arguments is not None:
        arguments = arguments[1:]
    else:
        # Python 3.9 does not report its own options.
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        name = None if spec is None else spec.name
        if name is not None and name.endswith(".__main__"):
            name = name[: -len(".__main__")]
        arguments = ["-m", name, *sys.argv[1:]] if name is not None else list(sys.argv)
        if arguments[0] == "-c":
            arguments = []
    if not sys.executable or not arguments or arguments[0] in ("", "-", "-i"):
        raise Error("worker.run must be called in a script or a module, which the worker starts for each process")
    return [sys.executable, *(argument.replace("{", "{{") for argument in arguments)]
