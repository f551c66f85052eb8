"""Workers from end to end: a script, `readpast work`, and the stand-in for SQL Server."""

from __future__ import annotations

import signal
import subprocess
import sys
import unittest
from typing import Any, ClassVar

from readpast import Failed, Queue, testing
from support import PATIENCE_S, ScriptTest, await_that, needs_posix, needs_program, readpast, variables


@needs_posix
@needs_program
class Work(ScriptTest):
    url: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.url = cls.enterClassContextOf(testing.server())

    @classmethod
    def enterClassContextOf(cls, context: Any) -> Any:
        # unittest has enterClassContext only from Python 3.11 on.
        cls.addClassCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def setUp(self) -> None:
        super().setUp()
        self.name = self.id().rpartition(".")[2][:60]
        readpast(self.url, "queue", "create", self.name, "--completion", "annotate")
        self.queue = Queue(self.name, self.url)
        self.addCleanup(self.queue.close)

    def start(self, handlers: str, run: str = "drain=True, processes=1") -> subprocess.Popen[str]:
        options = 'options=["--json", "--keep-log", "all", "--grace", "5s"]'
        text = f"import os, sys, time\nimport readpast\nfrom readpast import worker\n{handlers}\n"
        script = self.script(f"{text}worker.run({self.name!r}, {run}, {options})")
        # A cancellation arrives with a heartbeat.
        environment = variables(READPAST_URL=self.url, READPAST_WORKER_HEARTBEAT_INTERVAL_MS="100")
        worker = subprocess.Popen(
            [sys.executable, script], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.addCleanup(worker.communicate)
        self.addCleanup(worker.kill)
        return worker

    def drain(self, handlers: str, run: str = "drain=True, processes=1") -> str:
        """Runs a worker until the queue is empty. Returns what it wrote to standard error."""
        worker = self.start(handlers, run)
        _, errors = worker.communicate(timeout=PATIENCE_S)
        self.assertEqual(worker.returncode, 0, errors)
        return errors

    def row(self, job_id: int) -> dict[str, Any]:
        return readpast(self.url, "job", str(job_id))[0]

    def log(self, job_id: int) -> str:
        return "".join(log["text"] or "" for log in self.row(job_id)["logs"])

    def test_jobs_have_results(self) -> None:
        jobs = [
            self.queue.enqueue(payload, kind=kind).job_id
            for kind, payload in [
                ("double", {"n": 21}),
                ("echo", "größe 🦀"),
                ("echo", b"\xff\n\x00"),
                ("echo", b"x" * 2_000_000),
                ("none", None),
            ]
        ]
        self.drain(
            """
@worker.job("double")
def double(payload: dict) -> dict:
    return {"n": 2 * payload["n"]}
@worker.job("echo")
def echo(payload: memoryview) -> memoryview:
    return payload
@worker.job("none")
def none(payload) -> None:
    assert payload is None
"""
        )
        results = [self.queue.result(job, timeout=PATIENCE_S) for job in jobs]
        self.assertEqual(results, [b'{"n":42}', "größe 🦀".encode(), b"\xff\n\x00", b"x" * 2_000_000, None])

    def test_jobs_run_in_several_processes(self) -> None:
        self.queue.enqueue_many(range(300))
        self.drain("@worker.job\ndef pid(payload): return os.getpid()", "drain=True, processes=2")
        outputs = {
            job["output_text"] for job in readpast(self.url, "jobs", self.name, "--state", "done", "--limit", "300")
        }
        self.assertEqual(len(outputs), 2)

    def test_outcomes(self) -> None:
        kinds = ["retry", "bug", "snooze", "dead", "unfit"]
        jobs = {kind: self.queue.enqueue(1, kind=kind).job_id for kind in kinds}
        self.drain(
            """
@worker.job("retry")
def retry(payload, job):
    if job.attempt == 1: raise readpast.Retry("busy", after=0.01)
@worker.job("bug")
def bug(payload, job):
    if job.attempt == 1: raise readpast.Retry("first", after=0) from ValueError("cause")
@worker.job("snooze")
def snooze(payload, job):
    if job.fence == 1: raise readpast.Snooze("not yet", 0.01)
@worker.job("dead")
def dead(payload): raise readpast.Dead("no such file")
@worker.job("unfit")
def unfit(payload: list): pass
"""
        )
        rows = {kind: self.row(job) for kind, job in jobs.items()}
        self.assertEqual(
            {kind: (row["state"], row["attempt"]) for kind, row in rows.items()},
            {
                "retry": ("done", 2),
                "bug": ("done", 2),
                "snooze": ("done", 1),
                "dead": ("dead", 1),
                "unfit": ("dead", 1),
            },
        )
        self.assertEqual(rows["retry"]["failed_attempts"][0]["error"], "busy")
        self.assertIn("ValueError: cause", rows["bug"]["failed_attempts"][0]["error"])
        with self.assertRaises(Failed) as failed:
            self.queue.result(jobs["dead"])
        self.assertEqual((failed.exception.state, failed.exception.error), ("dead", "no such file"))
        self.assertEqual(rows["unfit"]["error"], "the payload is JSON of type int, not list")

    def test_a_bug_is_retried_with_its_traceback(self) -> None:
        job = self.queue.enqueue({"a": 1}, max_attempts=1).job_id
        self.drain("@worker.job\ndef bug(payload): return payload['b']")
        lines = self.row(job)["error"].splitlines()
        self.assertEqual(lines[:2], ["KeyError: 'b'", "Traceback (most recent call last):"])
        self.assertIn("in bug", lines[2])

    def test_a_crash_costs_its_job_one_attempt(self) -> None:
        jobs = [self.queue.enqueue(payload) for payload in ("before", "crash", "after")]
        self.drain(
            """
@worker.job
def work(payload: str, job):
    if payload == "crash" and job.attempt == 1: os.abort()
    return os.getpid()
"""
        )
        rows = [self.row(job.job_id) for job in jobs]
        self.assertEqual([(row["state"], row["attempt"]) for row in rows], [("done", 1), ("done", 2), ("done", 1)])
        error = rows[1]["failed_attempts"][0]["error"]
        self.assertIn("SIGABRT", error)
        self.assertIn("in work", error)

    def test_a_crash_costs_one_job_though_others_were_sent_ahead(self) -> None:
        self.queue.enqueue_many(["crash" if number == 500 else "" for number in range(1_000)])
        errors = self.drain(
            """
@worker.job
def work(payload: str, job):
    if payload and job.attempt == 1: os.abort()
""",
            "drain=True, processes=1, ahead=100",
        )
        self.assertIn("done=1000 retried=1 snoozed=0 dead=0", errors)

    def test_a_checkpoint_survives_a_crash(self) -> None:
        job = self.queue.enqueue(None).job_id
        self.drain(
            """
@worker.job
def work(payload, job):
    if job.checkpoint is None:
        job.progress(0.5, "half")
        job.save({"page": 3})
        raise readpast.Retry("again", after=0)
    return job.checkpoint
"""
        )
        self.assertEqual(self.queue.result(job), b'{"page":3}')

    def test_what_is_printed_and_logged_is_the_jobs_log(self) -> None:
        job = self.queue.enqueue(None).job_id
        self.drain("@worker.job\ndef work(payload, job):\n    print('printed')\n    job.log('a line')")
        log = self.log(job)
        self.assertIn("a line\n", log)
        self.assertIn("printed\n", log)

    def test_a_cancelled_job_cleans_up(self) -> None:
        mark, cleaned = self.folder / "started", self.folder / "cleaned"
        job = self.queue.enqueue(None).job_id
        worker = self.start(
            f"""
@worker.job
def work(payload):
    try:
        open({str(mark)!r}, "w").close()
        time.sleep(1000)
    finally:
        open({str(cleaned)!r}, "w").close()
"""
        )
        await_that(mark.exists)
        readpast(self.url, "cancel", self.name, str(job), "--yes")
        _, errors = worker.communicate(timeout=PATIENCE_S)
        self.assertEqual((worker.returncode, cleaned.exists()), (0, True), errors)
        self.assertEqual(self.row(job)["state"], "cancelled")

    def test_ctrl_c_lets_a_job_stop_and_another_worker_continues_it(self) -> None:
        mark = self.folder / "started"
        job = self.queue.enqueue(None).job_id
        handler = f"""
@worker.job
def work(payload, job):
    if job.checkpoint: return job.checkpoint
    open({str(mark)!r}, "w").close()
    while not job.stopping:
        time.sleep(0.01)
    job.save("page 7")
    raise readpast.Snooze("stopped", 0)
"""
        worker = self.start(handler, "processes=1")
        await_that(mark.exists)
        worker.send_signal(signal.SIGINT)
        _, errors = worker.communicate(timeout=PATIENCE_S)
        self.assertEqual(worker.returncode, 0, errors)
        self.drain(handler)
        self.assertEqual((self.queue.result(job), self.row(job)["attempt"]), (b"page 7", 1))

    def test_a_plain_readpast_work_runs_the_script_too(self) -> None:
        job = self.queue.enqueue("x").job_id
        script = self.worker("@worker.job\ndef work(payload: str): return 2 * payload")
        readpast(self.url, "work", self.name, "--drain", "--keep", "--", sys.executable, script)
        self.assertEqual(self.queue.result(job), b"xx")

    def test_a_worker_conforms_to_the_protocol(self) -> None:
        script = self.worker("@worker.job\ndef echo(payload: bytes): return payload")
        reports = readpast(self.url, "check-program", "--", sys.executable, script)
        self.assertTrue(reports)


if __name__ == "__main__":
    unittest.main()
