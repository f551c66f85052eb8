"""A program of `readpast work --keep`: runs the jobs that the worker sends, one after another."""

from __future__ import annotations

import faulthandler
import inspect
import os
import signal
import stat
import sys
import traceback
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any, Callable, NoReturn

from ._job import Job
from ._payloads import Decoder, decoder, encoded
from ._wire import Request, Wire
from .exceptions import Cancelled, Outcome

#: Set by a worker for its programs (docs/work.md), which pass it on to what they start.
RUN = "READPAST_RUN"

#: Also set if the program runs only one job.
JOB_ID = "READPAST_JOB_ID"

#: A program that serves a worker sets this to the worker's `READPAST_RUN`, for the processes that it starts: see
#: `is_served`. With the underscore, it is not a setting of readpast.
SERVES = "_READPAST_SERVES"

#: How long a job without a handler waits for a worker that has one.
UNKNOWN_KIND_SNOOZE_S = 60

#: The longest error that is sent, in characters: twice what SQL Server keeps.
LONGEST_ERROR = 8_000

#: The exit code of a program ended by SIGTERM (128 + 15). A stopping worker does not count the attempt.
TERMINATED = 143


class Handler:
    """A function that runs jobs, and the way it takes them."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.name = getattr(function, "__qualname__", repr(function))
        self.takes_job = False
        self.decode: Decoder | None = None

    def prepare(self) -> None:
        """Reads the function's parameters. Not when it is decorated: annotations may name classes defined later.

        Raises:
            TypeError: if a handler cannot have these parameters.
        """
        name = self.name
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
            # A bound method's signature has no self.
            if inspect.isfunction(self.function) and parameters and parameters[0].name in ("self", "cls"):
                raise TypeError(
                    f"the handler {name} is a method without its object; register that of an object, as in "
                    "worker.job(kind)(object.method)"
                )
            of_calls = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            needed = [p for p in parameters if p.kind in of_calls and p.default is p.empty]
            by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
            if len(needed) not in (1, 2) or by_name:
                has = f"the keyword {by_name[0]}" if by_name else f"{len(needed)} parameters"
                raise TypeError(
                    f"the handler {name} has {has} without a default; it must have one or two parameters: "
                    "the payload, and the job"
                )
            self.takes_job = len(needed) == 2
            self.decode = decoder(self.function, needed[0])
        except NameError as error:
            raise TypeError(f"the annotations of the handler {name} cannot be resolved: {error}") from error

    def run(self, request: Request, wire: Any) -> bytes | memoryview | None:
        if self.decode is None:
            self.prepare()
            assert self.decode is not None
        payload = self.decode(request.payload)
        if self.takes_job:
            result = self.function(payload, Job(request.fields, request.payload, request.checkpoint, wire))
        else:
            result = self.function(payload)
        try:
            return encoded(result)
        except (TypeError, ValueError, BufferError, NotImplementedError, RecursionError) as error:
            # The traceback would show only how JSON is written.
            raise TypeError(f"the result of {self.name} cannot be an output: {error}") from None


def is_served() -> bool:
    """Whether this process was started by `readpast work --keep`, to speak its protocol.

    Such a program has `READPAST_RUN`, and pipes as standard input and output. A process that its jobs start, such as a
    test that calls `worker.run`, inherits the variable and may have pipes, but also has `_READPAST_SERVES` with the
    same value. A program for a single job also has `READPAST_JOB_ID`.
    """
    run = os.environ.get(RUN)
    is_inside_a_job = os.environ.get(SERVES) == run or JOB_ID in os.environ
    return run is not None and not is_inside_a_job and _is_pipe(0) and _is_pipe(1)


def is_of_one_job() -> bool:
    """Whether this process was started by `readpast work` without `--keep`. Its standard input is the payload."""
    return RUN in os.environ and JOB_ID in os.environ and SERVES not in os.environ and _is_pipe(0)


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def serve(handlers: Mapping[str | None, Handler], wire: Wire, ahead: int = 0) -> NoReturn:
    """Runs jobs until the worker closes the pipe."""
    termination = Termination()
    if hasattr(os, "register_at_fork"):
        # A child of a handler neither reads jobs nor replies, and SIGTERM ends it as usual.
        os.register_at_fork(after_in_child=termination.forget)
        os.register_at_fork(after_in_child=wire.forget)
    try:
        wire.ask(ahead)
        while True:
            request = wire.next()
            if request is None:
                sys.exit(0)
            run_job(handlers, request, wire, termination)
            # Frees the payload while waiting for the next job.
            del request
    except Cancelled:
        sys.exit(TERMINATED)
    except (EOFError, BrokenPipeError):
        # The worker is gone.
        sys.exit(1)
    finally:
        wire.close()


def take_standard_streams() -> Wire:
    """Keeps the pipes for the protocol. Standard input becomes empty; what is printed goes to the log.

    Afterwards, `is_served` is false in this process and those that it starts.
    """
    os.environ[SERVES] = os.environ[RUN]
    # If the process crashes, the job's error shows where.
    faulthandler.enable(2)
    wire = Wire(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Each line must be in the log of the job that printed it.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    return wire


class Termination:
    """The first SIGTERM raises `Cancelled`. Another one must not interrupt the job's clean-up."""

    def __init__(self) -> None:
        self.has_begun = False
        try:
            signal.signal(signal.SIGTERM, self._begin)
            # The worker decides what Ctrl-C means. Not SIG_IGN, which children would inherit.
            signal.signal(signal.SIGINT, lambda *_: None)
        except ValueError:
            raise RuntimeError("worker.run must be called in the main thread") from None

    def _begin(self, _signal: int, _frame: FrameType | None) -> None:
        if not self.has_begun:
            self.has_begun = True
            raise Cancelled

    @staticmethod
    def forget() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run_job(handlers: Mapping[str | None, Handler], request: Request, wire: Wire, termination: Termination) -> None:
    job_id = request.fields["job_id"]
    try:
        handler = handler_for(handlers, request.fields.get("kind"))
        output = handler.run(request, wire)
    except Cancelled:
        raise
    except BaseException as error:
        if termination.has_begun:
            traceback.print_exc()
            raise Cancelled from None
        _flush()
        wire.failed(job_id, failure(error))
    else:
        # After SIGTERM, the worker ignores replies, even if the handler has caught `Cancelled`.
        if termination.has_begun:
            raise Cancelled
        _flush()
        wire.done(job_id, output)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except Exception:
        pass  # the handler may have closed or replaced it


def handler_for(handlers: Mapping[str | None, Handler], kind: str | None) -> Handler:
    """The handler of a kind, or the one for all other kinds."""
    handler = handlers.get(kind) or handlers.get(None)
    if handler is None:
        raise UnknownKind(kind, handlers)
    return handler


class UnknownKind(Outcome):
    def __init__(self, kind: str | None, handlers: Mapping[str | None, Handler]) -> None:
        what = "jobs without a kind" if kind is None else f"jobs of kind {kind}"
        known = ", ".join(sorted(name for name in handlers if name is not None))
        super().__init__(f"this program has no handler for {what}, only for {known}")

    def fields(self) -> dict[str, object]:
        return {"snooze_s": UNKNOWN_KIND_SNOOZE_S}


def failure(error: BaseException) -> dict[str, object]:
    """The fields of the reply to a job whose handler raised this error."""
    if isinstance(error, Outcome):
        text = _message(error) or type(error).__name__
        if error.__cause__ is not None:
            text += "\n" + _traceback(error.__cause__)
        return {"error": _shortened(text), **error.fields()}
    return {"error": _shortened(_traceback(error))}


def _shortened(text: str) -> str:
    """A line that is too long would be no reply."""
    if len(text) <= LONGEST_ERROR:
        return text
    half = LONGEST_ERROR // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _message(error: Outcome) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _traceback(error: BaseException) -> str:
    """The traceback from the handler's frame on."""
    begin: TracebackType | None = error.__traceback__
    while begin is not None and begin.tb_frame.f_globals.get("__package__") == __package__:
        begin = begin.tb_next
    return "".join(traceback.format_exception(type(error), error, begin))
