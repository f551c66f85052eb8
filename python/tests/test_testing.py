"""The helpers for users' tests."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import typing  # noqa: F401 (for annotations that are text)
import unittest

from readpast import Dead, Failed, Job, Move, Queue, Retry, Snooze, testing, worker
from support import ScriptTest, needs_posix, needs_program, readpast, variables


class Jobs(unittest.TestCase):
    def test_a_handler_runs_without_a_server(self) -> None:
        def work(payload: dict, job: Job) -> dict:  # type: ignore[type-arg]
            job.progress(0.5, "half")
            job.save({"at": 1})
            job.log(f"{job.id} {job.attempt} {job.checkpoint!r} {job.stopping} {job.headers}")
            return {"n": payload["n"] + 1}

        result = testing.run(work, {"n": 1}, attempt=2, checkpoint="old", stopping=True, headers={"tenant": "acme"})
        self.assertEqual((result.outcome, result.output, result.error), ("done", b'{"n":2}', None))
        self.assertEqual((result.progress, result.checkpoints), ([(0.5, "half")], [b'{"at":1}']))
        self.assertEqual(result.log, ["1 2 b'old' True {'tenant': 'acme'}"])

    def test_outcomes(self) -> None:
        for error, outcome in [
            (Retry("no"), "retry"),
            (Snooze("no", 1), "snooze"),
            (Move("no", "large"), "move"),
            (Dead("no"), "dead"),
        ]:

            def fail(payload: str, error: Exception = error) -> None:
                raise error

            result = testing.run(fail, "x")
            self.assertEqual((result.outcome, result.error, result.exception), (outcome, "no", error))

        def bug(payload: str) -> int:
            return 1 // 0

        result = testing.run(bug, "x")
        self.assertEqual(result.outcome, "retry")
        self.assertIn("in bug", result.error or "")
        self.assertIsInstance(result.exception, ZeroDivisionError)

    def test_what_is_no_text(self) -> None:
        def log(payload: str, job: Job) -> None:
            job.log(ValueError("no"))  # type: ignore[arg-type]

        self.assertEqual(testing.run(log, "x").log, ["no"])
        with self.assertRaisesRegex(TypeError, "the queue is None"):
            Move("m", None)  # type: ignore[arg-type]

    def test_an_exit_is_a_failure_as_in_a_worker(self) -> None:
        self.assertEqual(testing.run(lambda payload: sys.exit(3), 1).outcome, "retry")

    def test_exceptions_come_from_other_processes(self) -> None:
        # A pool whose result cannot be unpickled waits for ever.
        errors = [Retry("m", 3), Snooze("m", 5), Move("m", "large"), Dead("m"), Failed(1, "dead", "no")]
        for error in errors:
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), str(copy), vars(copy)), (type(error), str(error), vars(error)))

    def test_an_outcome_without_a_message(self) -> None:
        class Unprintable(Dead):
            def __str__(self) -> str:
                raise ValueError("no")

        def fail(payload: str) -> None:
            raise Unprintable

        result = testing.run(fail, "x")
        self.assertEqual((result.outcome, result.error), ("dead", "Unprintable"))

    def test_only_the_payloads_annotation_is_resolved(self) -> None:
        def work(payload, job):  # type: ignore[no-untyped-def]
            return len(payload)

        work.__annotations__ = {"payload": "bytes", "job": "ImportedForTypeCheckersOnly"}
        self.assertEqual(testing.run(work, b"abc").output, b"3")
        self.assertEqual(testing.run(functools.partial(work, job=None), b"abc").output, b"3")

        class Callable:
            def __call__(self, payload: bytes) -> int:
                return len(payload)

        self.assertEqual(testing.run(Callable(), b"abc").output, b"3")

    def test_annotations_of_several_types(self) -> None:
        texts = ["typing.Union[str, bytes]", "typing.Optional[bytearray]"]
        if sys.version_info >= (3, 10):
            texts += ["bytes | None", "int | memoryview"]
        for text in [*texts, "typing.Optional[dict]"]:

            def work(payload):  # type: ignore[no-untyped-def]
                return payload

            work.__annotations__ = {"payload": text}
            error = testing.run(work, {"a": 1}).error
            self.assertEqual(error is not None and "it must be str, bytes" in error, text in texts, error)

    def test_a_bound_method_is_a_handler(self) -> None:
        class Prices:
            def work(self, payload: int) -> int:
                return 2 * payload

        self.assertEqual(testing.run(Prices().work, 21).output, b"42")
        self.assertIn("is a method without its object", testing.run(Prices.work, 21).error or "")

    def test_a_handler_is_found_by_its_kind(self) -> None:
        self.addCleanup(worker.handlers.clear)

        @worker.job("double")
        def double(payload: int) -> int:
            return 2 * payload

        self.assertEqual(testing.run("double", 21).output, b"42")
        self.assertEqual(testing.run("double", "x").outcome, "dead")
        self.assertEqual(testing.run("triple", 1).outcome, "snooze")


@needs_program
class Server(ScriptTest):
    def test_queues_keep_outputs(self) -> None:
        with testing.server("prices", "mails") as url:
            queues = {queue["queue"]: queue["completion"] for queue in readpast(url, "queues")}
            self.assertEqual(queues, {"default": "delete", "prices": "annotate", "mails": "annotate"})
            with Queue("prices", url) as queue:
                queue.enqueue(1)

    @needs_posix
    def test_nothing_is_left(self) -> None:
        script = self.script(
            """
            import subprocess
            from readpast import testing
            started = []
            popen = subprocess.Popen
            subprocess.Popen = lambda *a, **b: started.append(popen(*a, **b)) or started[-1]
            try:
                with testing.server():
                    raise KeyError
            except KeyError:
                print([process.poll() for process in started])
            """
        )
        done = subprocess.run(
            [sys.executable, "-Werror", script], env=variables(), stdout=subprocess.PIPE, text=True, check=True
        )
        self.assertEqual(done.stdout, "[0]\n")


class Program(ScriptTest):
    @needs_program
    def test_python_m_readpast(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "readpast", "--version"],
            env=variables(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        self.assertTrue(done.stdout.startswith("readpast "), done.stdout)

    def test_it_is_found_beside_python_or_in_the_path(self) -> None:
        code = "from readpast import _program; print(_program.find_program())"
        environment = {name: value for name, value in variables().items() if name != "READPAST_PROGRAM"}
        name = "readpast.exe" if os.name == "nt" else "readpast"
        path = self.script("", name)
        os.chmod(path, 0o755)
        inherited = {**environment, "PATH": str(self.folder)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=inherited, stdout=subprocess.PIPE, text=True, check=True
        )
        self.assertEqual(os.path.basename(done.stdout.strip()), name)
        if done.stdout.strip() == path:
            done = subprocess.run(
                [sys.executable, "-m", "readpast"],
                env={**environment, "PATH": ""},
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn("the program readpast was not found", done.stderr)


if __name__ == "__main__":
    unittest.main()
