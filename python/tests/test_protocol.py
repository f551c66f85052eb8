"""A worker script at its pipes, without the program."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

from support import ScriptTest, Served, needs_posix, variables


class Payloads(ScriptTest):
    def test_the_annotation_decides_how_a_payload_is_given(self) -> None:
        program = self.served(
            """
            import dataclasses, typing
            @dataclasses.dataclass
            class Order:
                id: int
                name: str = ""
            @worker.job("none")
            def none(payload): return repr(payload)
            @worker.job("text")
            def text(payload: str): return repr(payload)
            @worker.job("bytes")
            def as_bytes(payload: bytes): return repr(payload)
            @worker.job("view")
            def view(payload: memoryview): return repr((payload.readonly, payload.tobytes()))
            @worker.job("dict")
            def object(payload: "typing.Dict[str, int]"): return repr(payload)
            @worker.job("float")
            def number(payload: float): return repr(payload)
            @worker.job("int")
            def integer(payload: int): return repr(payload)
            @worker.job("order")
            def order(payload: "Later"): return repr(payload)
            Later = Order
            """
        ).hello()
        for kind, payload, expected in [
            ("none", b'\r\n [1, "\xc3\xa9"]\t', "[1, 'é']"),
            ("text", "é 🦀\n".encode(), "'é 🦀\\n'"),
            ("bytes", b"\xff\n\x00", "b'\\xff\\n\\x00'"),
            ("view", b"\xff", "(True, b'\\xff')"),
            ("dict", b'{"a": 1}', "{'a': 1}"),
            ("float", b"1", "1"),
            ("order", b'{"id": 7}', "Order(id=7, name='')"),
        ]:
            _, output = program.run(payload, kind=kind)
            self.assertEqual(output.decode(), expected, kind)
        for kind, payload, error in [
            ("none", b"{", "the payload is not JSON: "),
            ("none", b"", "the payload is not JSON: "),
            ("none", b"1 2", "the payload is not JSON: Extra data: line 1 column 2"),
            ("none", b"\xff", "the payload is not JSON: "),
            ("text", b"\xff", "the payload is not text: "),
            ("dict", b"[]", "the payload is JSON of type list, not dict"),
            ("int", b"true", "the payload is JSON of type bool, not int"),
            ("order", b'{"nmae": 1}', "the payload does not fit Order: "),
        ]:
            reply, _ = program.run(payload, kind=kind)
            self.assertTrue(reply.pop("error").startswith(error), kind)
            self.assertEqual(reply, {"dead": True})
        self.assertEqual(program.end(), (0, ""))

    def test_a_job_that_came_before_the_hello_is_in_the_plain_form(self) -> None:
        program = self.served(
            """
            @worker.job
            def echo(payload: bytes, job): return payload + b"|" + (job.checkpoint or b"none")
            """
        )
        program.send_line(payload_text="é", payload_hex=None, checkpoint_text=None, checkpoint_hex=None, kind=None)
        program.send_line(payload_text=None, payload_hex="0xFF0a", checkpoint_text=None, checkpoint_hex="0x00")
        program.hello()
        self.assertEqual(program.read(), ({"job_id": 1, "output_bytes": 7}, b"\xc3\xa9|none"))
        self.assertEqual(program.read(), ({"job_id": 2, "output_bytes": 4}, b"\xff\n|\x00"))
        self.assertEqual(program.run(b"a\nb", b"\n"), ({"output_bytes": 5}, b"a\nb|\n"))
        self.assertEqual(program.run(b"", b"0"), ({"output_bytes": 2}, b"|0"))

    def test_large_payloads_and_outputs_arrive_unchanged(self) -> None:
        program = self.served(
            """
            @worker.job("bytes")
            def echo(payload: bytes): return payload
            @worker.job("view")
            def view(payload: memoryview): return payload
            """
        ).hello()
        for size in (65_535, 65_536, 65_537, 9_000_001):
            payload = bytes(range(251)) * (size // 251 + 1)
            for kind in ("bytes", "view"):
                reply, output = program.run(payload[:size], kind=kind)
                self.assertEqual(reply, {"output_bytes": size})
                self.assertTrue(output == payload[:size])
        text = "x" * 3_000_000
        program.send_line(payload_text=text, kind="bytes")
        self.assertEqual(len(program.read()[1]), len(text))

    def test_results(self) -> None:
        program = self.served(
            """
            import array
            released = memoryview(b"abc")
            released.release()
            results = {
                "none": None, "text": "é", "bytes": b"\\xff", "view": memoryview(b"abc")[::2],
                "array": array.array("H", [1, 2]), "dict": {"a": [1, "é"]}, "zero": 0, "false": False,
                "tuple": (1,), "empty": b"", "set": {1}, "nan": float("nan"), "released": released,
            }
            @worker.job
            def result(payload: str): return results[payload]
            """
        ).hello()
        for name, output in [
            ("none", None),
            ("text", "é".encode()),
            ("bytes", b"\xff"),
            ("view", b"ac"),
            ("array", b"\1\0\2\0"),
            ("dict", '{"a":[1,"é"]}'.encode()),
            ("zero", b"0"),
            ("false", b"false"),
            ("tuple", b"[1]"),
            ("empty", b""),
        ]:
            reply, data = program.run(name.encode())
            self.assertEqual((reply, data), ({}, b"") if output is None else ({"output_bytes": len(output)}, output))
        for name, error in [
            ("set", "a value of type set is neither text, bytes nor JSON"),
            ("nan", "Out of range float values are not JSON compliant"),
            ("released", "operation forbidden on released memoryview object"),
        ]:
            reply, _ = program.run(name.encode())
            # It has no frames: those of this package and of json show nothing.
            self.assertTrue(
                reply["error"].startswith(f"TypeError: the result of result cannot be an output: {error}"), reply
            )


class Outcomes(ScriptTest):
    def test_a_handler_raises_what_becomes_of_the_job(self) -> None:
        program = self.served(
            """
            from datetime import timedelta
            from readpast import Dead, Move, Retry, Snooze
            raised = {
                "retry": Retry("busy"), "later": Retry("busy", after=1.5),
                "snooze": Snooze("not yet", timedelta(minutes=1)), "move": Move("too large", "large"),
                "dead": Dead("no such file"), "silent": Dead(), "half": Dead("\\ud800"),
            }
            @worker.job
            def fail(payload: str): raise raised[payload]
            """
        ).hello()
        for name, expected in [
            ("retry", {"error": "busy"}),
            ("later", {"error": "busy", "retry_in_s": 1.5}),
            ("snooze", {"error": "not yet", "snooze_s": 60.0}),
            ("move", {"error": "too large", "move_to": "large"}),
            ("dead", {"error": "no such file", "dead": True}),
            ("silent", {"error": "Dead", "dead": True}),
            ("half", {"error": "?", "dead": True}),
        ]:
            self.assertEqual(program.run(name.encode()), (expected, b""))

    def test_any_other_exception_is_a_traceback_from_the_handler_on(self) -> None:
        program = self.served(
            """
            @worker.job
            def fail(payload: str):
                inner(payload)
            def inner(payload):
                if payload == "exit":
                    sys.exit("enough")
                if payload == "cause":
                    try:
                        open("/nowhere")
                    except OSError as error:
                        raise readpast.Retry("no file") from error
                raise ValueError(payload)
            """
        ).hello()
        error = program.run(b"wrong")[0]["error"]
        lines = error.splitlines()
        self.assertEqual((lines[0], lines[-1]), ("Traceback (most recent call last):", "ValueError: wrong"))
        self.assertIn("in fail", lines[1])
        self.assertNotIn("_serve.py", error)
        self.assertIn("SystemExit: enough", program.run(b"exit")[0]["error"])
        error = program.run(b"cause")[0]["error"]
        self.assertTrue(error.startswith("no file\nTraceback"), error)
        self.assertIn("FileNotFoundError", error)

    def test_a_long_error_is_shortened(self) -> None:
        program = self.served(
            "@worker.job\ndef work(payload): raise readpast.Dead('a' + 'x' * 100_000_000 + 'z')"
        ).hello()
        reply, _ = program.run()
        self.assertEqual((len(reply["error"]), reply["error"][0], reply["error"][-1]), (8_003, "a", "z"))
        self.assertTrue(reply["dead"])
        self.assertEqual(program.end(), (0, ""))

    def test_a_handler_may_close_its_standard_output(self) -> None:
        program = self.served(
            """
            @worker.job
            def work(payload): sys.stdout.close()
            @worker.job("none")
            def none(payload): sys.stdout = None
            """
        ).hello()
        self.assertEqual(program.run(), ({}, b""))
        self.assertEqual(program.run(kind="none"), ({}, b""))
        self.assertEqual(program.end(), (0, ""))

    def test_a_kind_without_a_handler_is_snoozed(self) -> None:
        program = self.served(
            """
            @worker.job("resize")
            def resize(payload): pass
            @worker.job("crop")
            def crop(payload): pass
            """
        ).hello()
        reply = {"error": "this program has no handler for jobs of kind price, only for crop, resize", "snooze_s": 60}
        self.assertEqual(program.run(kind="price"), (reply, b""))
        self.assertIn("jobs without a kind", program.run()[0]["error"])

    def test_a_handler_without_a_kind_gets_all_others(self) -> None:
        program = self.served(
            """
            @worker.job("resize")
            def resize(payload): return "resize"
            @worker.job
            def other(payload, job): return f"other {job.kind}"
            """
        ).hello()
        outputs = [program.run(kind=kind)[1] for kind in ("resize", "price", None)]
        self.assertEqual(outputs, [b"resize", b"other price", b"other None"])


class Jobs(ScriptTest):
    def test_a_handler_with_two_parameters_gets_the_job(self) -> None:
        program = self.served(
            """
            @worker.job
            def show(payload, job: readpast.Job):
                parents = [[*parent[:3], parent.output.decode()] for parent in job.parents]
                return [job.id, job.attempt, job.max_attempts, job.fence, job.kind, dict(job.headers), job.group_key,
                        job.batch_id, str(job.correlation_id), parents, job.time_left,
                        bytes(job.payload).decode(), job.checkpoint and job.checkpoint.decode()]
            """
        ).hello()
        self.assertEqual(program.run(b"1")[1], b'[1,1,5,1,null,{},null,null,"None",[],null,"1",null]')
        parent = {"job_id": 6, "state": "done", "error": None, "output_text": "a.png", "output_hex": None}
        _, output = program.run(
            b"2", b"half", kind="k", headers={"tenant": "acme"}, group_key="g", batch_id=9, parents=[parent],
            time_limit_s=0.0, correlation_id="0e984725-c51c-4bf4-9960-e1c80e27aba0",
        )  # fmt: skip
        expected = (
            '[2,1,5,1,"k",{"tenant":"acme"},"g",9,"0e984725-c51c-4bf4-9960-e1c80e27aba0",[[6,"done",null,"a.png"]],'
            '0.0,"2","half"]'
        )
        self.assertEqual(output.decode(), expected)

    def test_notes(self) -> None:
        program = self.served(
            """
            @worker.job
            def note(payload: str, job):
                job.progress(0.25, "3 of 12")
                job.progress(1)
                job.save({"at": 3})
                job.save(b"\\xff\\n")
                job.log("größe \\ud800 🦀\\n")
                for call, wrong in (job.progress, 2), (job.progress, float("nan")), (job.save, b"x" * 65536):
                    try:
                        call(wrong)
                    except ValueError as error:
                        job.log(str(error))
                keep.append(job)
            keep = []
            @worker.job("late")
            def late(payload):
                try:
                    keep[0].log("too late")
                except RuntimeError as error:
                    return str(error)
            """
        ).hello()
        program.send(b"x")
        for expected in [
            ({"job_id": 1, "progress": 0.25, "progress_text": "3 of 12"}, b""),
            ({"job_id": 1, "progress": 1.0}, b""),
            ({"job_id": 1, "checkpoint_bytes": 8}, b'{"at":3}'),
            ({"job_id": 1, "checkpoint_bytes": 2}, b"\xff\n"),
            ({"job_id": 1, "log": "größe ? 🦀\n"}, b""),
            ({"job_id": 1, "log": "the fraction is 2; it must be from 0 to 1"}, b""),
            ({"job_id": 1, "log": "the fraction is nan; it must be from 0 to 1"}, b""),
            ({"job_id": 1, "log": "the checkpoint has 65536 bytes; at most 65535 are saved"}, b""),
            ({"job_id": 1}, b""),
        ]:
            self.assertEqual(program.read(), expected)
        self.assertEqual(program.run(kind="late")[1], b"job 1 does not run in this process, or has ended")

    def test_what_is_printed_goes_to_the_log_before_the_reply(self) -> None:
        program = self.served(
            """
            import subprocess
            print("while it loads")
            @worker.job
            def loud(payload):
                print("printed")
                print("without an end", end="")
                sys.stdout.flush()
                os.write(1, b"\\nby a library\\n")
                subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
                return repr(sys.stdin.read())
            """
        ).hello()
        self.assertEqual(program.run()[1], b"''")
        self.assertEqual(program.end(), (0, "while it loads\nprinted\nwithout an end\nby a library\nby a child\n"))

    def test_threads_of_a_handler_use_the_job_at_once(self) -> None:
        program = self.served(
            """
            import threading
            @worker.job
            def work(payload, job):
                def note():
                    for number in range(200):
                        job.log("x" * number)
                        job.save(b"\\n" * number)
                        assert not job.stopping
                threads = [threading.Thread(target=note) for _ in range(4)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
            """
        ).hello()
        job_id = program.send()
        notes: list[tuple[dict[str, object], bytes]] = []
        while len(notes) < 1_600:
            notes.append(program.read())
        self.assertEqual(sum(len(str(fields["log"])) for fields, _ in notes if "log" in fields), 4 * 199 * 100)
        self.assertEqual(sum(data.count(b"\n") for _, data in notes), 4 * 199 * 100)
        self.assertEqual(program.read(), ({"job_id": job_id}, b""))
        self.assertEqual(program.end(), (0, ""))

    def test_a_worker_that_stops_is_seen_by_the_running_job(self) -> None:
        program = self.served(
            """
            @worker.job
            def long(payload, job):
                before = job.stopping
                job.log("started")
                while not job.stopping:
                    time.sleep(0.001)
                raise readpast.Snooze(f"stopped; {before} before", 0)
            @worker.job("short")
            def short(payload, job): return str(job.stopping)
            """
        ).hello()
        self.assertEqual(program.run(kind="short")[1], b"False")
        program.send()
        self.assertEqual(program.read()[0]["log"], "started")
        program.write(b'{"stop"')
        program.write(b":true}\n")
        self.assertEqual(program.read()[0], {"job_id": 2, "error": "stopped; False before", "snooze_s": 0.0})
        self.assertEqual(program.run(kind="short")[1], b"True")
        program.write(b'{"stop":true}\n')
        self.assertEqual(program.end(), (0, ""))

    def test_a_stop_that_comes_together_with_the_job_is_seen(self) -> None:
        program = self.served(
            """
            @worker.job
            def work(payload, job): return str(job.stopping)
            """
        ).hello()
        line = b'{"job_id":1,"attempt":1,"max_attempts":5,"fence":1,"payload_bytes":2}\n{}'
        program.write(line + b'{"stop":true}\n')
        self.assertEqual(program.read()[1], b"True")
        self.assertEqual(program.end(), (0, ""))

    def test_jobs_that_came_ahead_run_one_after_another_and_the_stop_behind_them_is_seen(self) -> None:
        program = self.served(
            """
            @worker.job
            def echo(payload: bytes, job): return b"%d %d" % (len(payload), job.stopping)
            """,
            "worker.run('queue', ahead=20)",
        ).hello(ahead=20)
        # The last payload needs several reads, and has line feeds.
        payloads = [b"a", b"", b"\n{}\n", b"\n" * 200_000]
        lines = b"".join(
            b'{"job_id":%d,"attempt":1,"max_attempts":5,"fence":1,"payload_bytes":%d}\n' % (number, len(payload)) + payload
            for number, payload in enumerate(payloads)
        )
        program.write(lines + b'{"stop":true}\n')
        for number, payload in enumerate(payloads):
            reply, output = program.read()
            self.assertEqual((reply["job_id"], output[:-1]), (number, b"%d " % len(payload)))
        self.assertEqual(output[-1:], b"1")
        self.assertEqual(program.run(b"b")[1], b"1 1")
        self.assertEqual(program.end(), (0, ""))

    def test_a_thread_of_an_earlier_attempt_cannot_speak_for_the_next(self) -> None:
        program = self.served(
            """
            earlier = []
            @worker.job
            def work(payload, job):
                earlier.append(job)
                try:
                    earlier[0].save("stale")
                except RuntimeError as error:
                    return str(error)
                raise readpast.Retry("again")
            """
        ).hello()
        program.send()
        self.assertEqual(program.read(), ({"job_id": 1, "checkpoint_bytes": 5}, b"stale"))
        self.assertEqual(program.read()[0]["error"], "again")
        program.job_id = 0
        self.assertEqual(program.run(attempt=2, fence=2)[1], b"job 1 does not run in this process, or has ended")
        self.assertEqual(program.end(), (0, ""))

    def test_a_worker_that_is_gone_stops_the_running_job(self) -> None:
        program = self.served(
            """
            @worker.job
            def long(payload, job):
                job.log("started")
                while not job.stopping:
                    time.sleep(0.001)
                print("stopped")
            """
        ).hello()
        program.send()
        program.read()
        assert program.process.stdin is not None
        program.process.stdin.close()
        self.assertEqual(program.read(), ({"job_id": 1}, b""))
        self.assertEqual(program.end(), (0, "stopped\n"))


class Ends(ScriptTest):
    def test_the_end_of_the_input_ends_the_program(self) -> None:
        self.assertEqual(self.served("@worker.job\ndef work(payload): pass").hello().end(), (0, ""))

    def test_an_input_that_ends_within_a_payload_ends_it_too(self) -> None:
        program = self.served("@worker.job\ndef work(payload): pass").hello()
        program.send_line(b"[1,", payload_bytes=8)
        self.assertEqual(program.end(), (1, ""))

    @needs_posix
    def test_sigterm_runs_the_clean_up_and_nothing_is_replied(self) -> None:
        path = self.worker(
            """
            @worker.job("finally")
            def finally_only(payload, job):
                try:
                    job.log("started")
                    time.sleep(60)
                finally:
                    print("cleaned up")
            @worker.job("caught")
            def caught(payload, job):
                try:
                    job.log("started")
                    time.sleep(60)
                except BaseException:
                    print("cleaned up")
            @worker.job("fails")
            def fails(payload, job):
                try:
                    job.log("started")
                    time.sleep(60)
                finally:
                    raise ValueError("cleaned up")
            """
        )
        for kind in ("finally", "caught", "fails"):
            program = Served([sys.executable, path]).hello()
            self.addCleanup(program.kill)
            program.send(kind=kind)
            program.read()
            program.terminate()
            code, errors = program.end()
            self.assertEqual(code, 143)
            self.assertEqual("ValueError" in errors, kind == "fails", errors)
            self.assertTrue(errors.endswith("cleaned up\n"), errors)

    @needs_posix
    def test_sigterm_between_two_jobs_is_quiet(self) -> None:
        program = self.served("@worker.job\ndef work(payload): pass").hello()
        program.run()
        program.terminate()
        self.assertEqual(program.end(), (143, ""))

    @needs_posix
    def test_children_of_a_handler_end_by_sigterm_as_usual(self) -> None:
        program = self.served(
            """
            import multiprocessing, signal
            @worker.job
            def work(payload, job):
                context = multiprocessing.get_context("fork")
                reads, writes = context.Pipe(False)
                child = context.Process(target=wait, args=(writes,))
                child.start()
                reads.recv()
                child.terminate()
                child.join()
                return child.exitcode
            def wait(writes):
                writes.send(1)
                time.sleep(60)
            """
        ).hello()
        self.assertEqual(program.run()[1], b"-15")
        self.assertEqual(program.end(), (0, ""))

    @needs_posix
    def test_children_of_a_handler_cannot_speak_for_it(self) -> None:
        program = self.served(
            """
            import multiprocessing
            @worker.job
            def work(payload, job):
                # As if another thread were writing a note.
                job._notes._lock.acquire()
                child = multiprocessing.get_context("fork").Process(target=note, args=(job,))
                child.start()
                job._notes._lock.release()
                child.join()
                return child.exitcode
            def note(job):
                try:
                    job.log("from the child")
                except RuntimeError:
                    os._exit(7)
            """
        ).hello()
        self.assertEqual(program.run()[1], b"7")
        self.assertEqual(program.end(), (0, ""))

    @needs_posix
    def test_ctrl_c_is_the_workers(self) -> None:
        program = self.served(
            """
            import signal
            @worker.job
            def work(payload):
                os.kill(os.getpid(), signal.SIGINT)
                return "done"
            """
        ).hello()
        self.assertEqual(program.run()[1], b"done")


class Starts(ScriptTest):
    def test_a_script_without_a_guard_starts_no_worker_in_its_children(self) -> None:
        program = self.served(
            """
            import multiprocessing
            def nothing(): pass
            @worker.job
            def work(payload):
                child = multiprocessing.get_context("spawn").Process(target=nothing)
                child.start()
                child.join()
                return child.exitcode
            """
        ).hello()
        self.assertEqual(program.run()[1], b"1")
        _, errors = program.end()
        self.assertIn("put worker.run under `if __name__ == '__main__':`", errors)

    def test_what_a_job_starts_is_no_program_of_the_worker(self) -> None:
        inner = self.script(
            """
            from readpast import worker
            worker.job(lambda payload: None)
            worker.run("inner")
            """,
            "inner.py",
        )
        program = self.served(
            f"""
            import subprocess
            @worker.job
            def work(payload):
                inner = subprocess.run([sys.executable, {inner!r}], input=b"", capture_output=True)
                return inner.stdout
            """,
            READPAST_PROGRAM=self.program("echo"),
        ).hello()
        self.assertIn(b"work inner --keep -- ", program.run()[1])

    def test_a_program_of_one_job_says_what_is_wrong(self) -> None:
        program = self.served("@worker.job\ndef work(payload): pass", READPAST_JOB_ID="7")
        code, errors = program.end()
        self.assertEqual(code, 1)
        self.assertIn("start it with --keep", errors)

    @needs_posix
    def test_a_script_and_a_module_start_themselves(self) -> None:
        text = """
            import sys
            from readpast import worker
            @worker.job("a")
            def a(payload): pass
            @worker.job("b")
            def b(payload): pass
            worker.run("prices", url="Server=x", processes=3, drain=True, options=["--grace", "1s"])
        """
        script = self.script(text)
        self.script(text, "package/__main__.py")
        common = [
            "work",
            "prices",
            "--keep",
            "--kinds=a,b",
            "--threads",
            "3",
            "--drain",
            "--grace",
            "1s",
            "--",
            sys.executable,
        ]
        for arguments, expected in [
            ([script, "{x}", "-v"], [script, "{{x}", "-v"]),
            (["-m", "package", "y"], ["-m", "package", "y"]),
        ]:
            printed = subprocess.run(
                [sys.executable, *arguments], cwd=self.folder, stdout=subprocess.PIPE, check=True, text=True,
                env=variables(READPAST_PROGRAM=self.program("echo")),
            ).stdout.splitlines()  # fmt: skip
            self.assertEqual(printed, [" ".join([*common, *expected]), "Server=x"])

    @needs_posix
    def test_the_exit_code_is_the_programs(self) -> None:
        script = self.script("from readpast import worker\nworker.job(lambda payload: None)\nworker.run('q')")
        done = subprocess.run(
            [sys.executable, script], env=variables(READPAST_PROGRAM=self.program("exit 11; echo")), check=False
        )
        self.assertEqual(done.returncode, 11)

    def test_what_cannot_work_is_said_at_once(self) -> None:
        for text, error in [
            ("", "there is no handler"),
            ("@worker.job('a')\ndef a(): pass", "has 0 parameters without a default; it must have one or two"),
            ("@worker.job('a')\ndef a(x, y, z): pass", "has 3 parameters without a default; it must have one or two"),
            ("@worker.job('a')\nasync def a(x): pass", "the handler a is async"),
            (
                "@worker.job('a')\ndef a(x): pass\n@worker.job('a')\ndef b(x): pass",
                "there is a handler for kind a already",
            ),
            ("worker.job(7)", "kind is 7; it must be text"),
            ("worker.job('a b')", "kind is 'a b'; it must have 1 to 64 printable"),
            ("worker.job('')", "kind is ''; it must have 1 to 64 printable"),
            ("worker.run('q', options='--time-limit 60s')", "it must be a list, such as ['--time-limit', '60s']"),
            ("worker.run('q', processes=0)", "processes is 0; it must be 1 or more"),
            (
                "class C:\n    @worker.job\n    def a(self, x): pass",
                "the handler C.a is a method without its object",
            ),
            (
                "import typing\n@worker.job\ndef a(x: typing.Optional[bytes]): pass",
                "the parameter x of a is typing.Optional[bytes]; it must be str, bytes, bytearray or memoryview alone",
            ),
            ("@worker.job('a')\ndef a(x: 'Missing'): pass", "the annotations of the handler a cannot be resolved"),
            (
                "import os; os.environ['READPAST_PROGRAM'] = '/nowhere'\nworker.job(lambda x: None)",
                "/nowhere, which is not a file",
            ),
        ]:
            script = self.script(f"from readpast import worker\n{text}\nworker.run('q')")
            done = subprocess.run(
                [sys.executable, script], env=variables(), stderr=subprocess.PIPE, text=True, check=False
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn(error, done.stderr)

    def program(self, command: str) -> str:
        """A stand-in for the program."""
        path = self.script(f'#!/bin/sh\n{command} "$*"; echo "$READPAST_URL"\n', "readpast")
        os.chmod(path, 0o755)
        return path


if __name__ == "__main__":
    unittest.main()
