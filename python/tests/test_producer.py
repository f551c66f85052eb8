"""Producers: over each driver that is installed, and with the program."""

from __future__ import annotations

import datetime
import os
import sys
import unittest
import uuid
from typing import Any, ClassVar
from unittest import mock

import readpast as package
from readpast import InvalidJob, NewJob, Queue, QueueFull, ResultTimeout, UnknownQueue, _by_program, _drivers, testing
from readpast._drivers import DRIVERS, Driver, Settings, Unsuitable
from support import has_program, needs_posix, needs_program, readpast

#: The stand-in's connection string.
url = ""


def setUpModule() -> None:
    global url
    if has_program():
        context = testing.server("jobs")
        url = context.__enter__()
        unittest.addModuleCleanup(context.__exit__, None, None, None)
        readpast(url, "queue", "create", "small", "--max-depth", "3")


def connected(driver: Driver) -> Any:
    """A connection of the driver. Skips the test if it is not installed."""
    try:
        return driver.connect(__import__(driver.module), Settings(url))
    except (ImportError, Unsuitable) as error:
        raise unittest.SkipTest(f"{driver.name}: {error}") from None


@needs_program
class ByProgram(unittest.TestCase):
    """The tests of one way to enqueue, here the program. Each driver is a subclass."""

    driver: ClassVar[Driver | None] = None

    def setUp(self) -> None:
        if self.driver is not None:
            connected(self.driver).close()
        self.name = self.driver.name if self.driver else "program"
        drivers = mock.patch.object(_drivers, "DRIVERS", (self.driver,) if self.driver else ())
        drivers.start()
        self.addCleanup(drivers.stop)
        self.queue = Queue("jobs", url)
        self.addCleanup(self.queue.close)

    def row(self, job_id: int) -> Any:
        return readpast(url, "job", str(job_id))[0]

    def test_payloads_arrive_as_they_are(self) -> None:
        name, queue = self.name, self.queue
        # The stand-in does not tell pyodbc how long a parameter may be.
        sizes = [5_000] if name == "pyodbc" else [5_000, 2_000_000]
        cases: list[tuple[object, dict[str, object]]] = [
            ("é 🦀 '%s' ? \0\n", {"payload_text": "é 🦀 '%s' ? \0\n"}),
            (b"\xff\x00%", {"payload_hex": "0xFF0025"}),
            ({"a": [1, None, "é"]}, {"payload_text": '{"a":[1,null,"é"]}'}),
            (7, {"payload_text": "7"}),
            (None, {"payload_text": "null"}),
            ("", {"payload_bytes": 0}),
        ]
        cases += [("x" * size, {"payload_bytes": size}) for size in sizes]
        for payload, expected in cases:
            row = self.row(queue.enqueue(payload).job_id)
            self.assertEqual({field: row[field] for field in expected}, expected)

    def test_a_job_has_what_it_was_given(self) -> None:
        correlation_id = uuid.UUID(int=7)
        due_at = datetime.datetime(2100, 1, 2, 3, 4, 5, 678000, datetime.timezone(datetime.timedelta(hours=1)))
        name, queue = self.name, self.queue
        first = queue.enqueue(1)
        job = queue.enqueue(
            2, kind="it's", key=f"key of {name} %s ?", group="größe 🦀", priority=-10, due_at=due_at, start_within=60,
            headers={"tenant": "größe"}, max_attempts=3, time_limit=datetime.timedelta(minutes=1),
            correlation_id=correlation_id, needs={"memory": 3 << 30, "threads": 2, "gpu": 1}, after=[first.job_id],
        )  # fmt: skip
        self.assertFalse(job.duplicate)
        self.assertEqual(queue.enqueue(3, key=f"key of {name} %s ?"), (job.job_id, True))
        row = self.row(job.job_id)
        expected = {
            "kind": "it's", "dedup_key": f"key of {name} %s ?", "group_key": "größe 🦀", "priority": -10,
            "due_at": "2100-01-02T02:04:05.678Z", "start_by": "2100-01-02T02:05:05.678Z",
            "headers": {"tenant": "größe"}, "time_limit_s": 60.0, "correlation_id": str(correlation_id),
            "needs": {"memory": 3 << 30, "threads": 2, "gpu": 1}, "state": "waiting",
        }  # fmt: skip
        self.assertEqual({field: row[field] for field in expected}, expected)
        self.assertEqual([parent["job_id"] for parent in row["edges"]["parents"]], [first.job_id])
        delayed = self.row(queue.enqueue(4, delay=3600).job_id)
        self.assertEqual(delayed["state"], "scheduled")

    def test_many_jobs_keep_their_order_and_their_properties(self) -> None:
        name, queue = self.name, self.queue
        jobs: list[object] = [
            NewJob(
                number, kind=name,
                key=f"{name} {number}" if number % 7 == 0 else None,
                group=f"group {number % 3}" if number % 5 == 0 else None,
                headers={"n": str(number)} if number % 11 == 0 else None,
            )
            for number in range(1_100)
        ]  # fmt: skip
        many = queue.enqueue_many([*jobs, NewJob("again", key=f"{name} 7"), b"\xff"])
        self.assertEqual(sum(job.duplicate for job in many), 1)
        rows = readpast(url, "jobs", "jobs", "--kind", name, "--limit", "2000")
        rows.sort(key=lambda row: int(row["job_id"]))
        self.assertEqual([row["payload_text"] for row in rows], [str(number) for number in range(1_100)])
        for number in (77, 770):
            row = rows[number]
            self.assertEqual((row["dedup_key"], row["headers"]), (f"{name} {number}", {"n": str(number)}))
        self.assertEqual(rows[5]["group_key"], "group 2")
        ids = [job.job_id for job in many]
        self.assertEqual(ids[:1_100], [row["job_id"] for row in rows])
        self.assertEqual(many[1_100], (ids[7], True))

    def test_errors_name_what_is_wrong(self) -> None:
        _name, queue = self.name, self.queue
        with Queue("nope", url) as missing:
            for call in (lambda: missing.enqueue(1), lambda: missing.enqueue_many([1])):
                with self.assertRaisesRegex(UnknownQueue, "no queue 'nope'"):
                    call()
        with Queue("small", url) as small:
            with self.assertRaisesRegex(QueueFull, "queue 'small' is full") as full:
                small.enqueue_many(range(1_001))
                small.enqueue_many([1])
            self.assertLessEqual(full.exception.added, 1_000)
        # mssql-python does not report the number of an error.
        invalid = package.Error if self.name == "mssql-python" else InvalidJob
        for call in (lambda: queue.enqueue(1, batch=99), lambda: queue.enqueue_many([NewJob(1, batch=99)])):
            with self.assertRaisesRegex(invalid, "there is no batch 99"):
                call()
        with self.assertRaisesRegex(invalid, f"is {1 << 60}; it must be the id of a job"):
            queue.enqueue(1, after=[1 << 60])
        # The connection is good for further calls.
        queue.enqueue(1)

    def test_a_result_is_awaited(self) -> None:
        _name, queue = self.name, self.queue
        job_id = queue.enqueue(NewJob(1)).job_id
        with self.assertRaisesRegex(ResultTimeout, f"`readpast job {job_id}` shows why it waits"):
            queue.result(job_id, timeout=0.02)

    def test_a_job_is_part_of_the_callers_transaction(self) -> None:
        if self.driver is None:
            self.skipTest("the program has its own connection")
        connection = connected(self.driver)
        self.addCleanup(connection.close)
        if callable(connection.autocommit):
            connection.autocommit(False)
        else:
            connection.autocommit = False
        queue = Queue("jobs", connection=connection)
        refused = Queue("nope", connection=connection)
        lost = queue.enqueue("lost").job_id
        self.assertEqual(len(queue.enqueue_many(["lost", "too"])), 2)
        connection.rollback()
        kept = queue.enqueue("kept").job_id
        with self.assertRaises(UnknownQueue):
            refused.enqueue("refused")
        also = queue.enqueue_many([NewJob("also", kind="k")])[0].job_id
        connection.commit()
        self.assertEqual([self.row(job)["payload_text"] for job in (kept, also)], ["kept", "also"])
        found = readpast(url, "jobs", "jobs", "--limit", "10000")
        self.assertNotIn(lost, [row["job_id"] for row in found])
        self.assertNotIn("lost", [row["payload_text"] for row in found])

    def test_a_login_that_fails_is_an_error(self) -> None:
        wrong = url.replace("Password=readpast", "Password=wrong")
        with self.assertRaisesRegex(package.Error, "Login failed for user 'sa'"):
            Queue("jobs", wrong).enqueue(1)

    def test_a_queue_reconnects(self) -> None:
        if self.driver is None:
            self.skipTest("the program connects for each call")
        self.queue.enqueue(1)
        assert self.queue._session is not None
        self.queue._session.connection.close()
        with self.assertRaises(package.Error):
            self.queue.enqueue(2)
        self.queue.enqueue(3)
        # After a while, a broken connection is noticed before it is used.
        self.queue._session.connection.close()
        self.queue._used_at -= 3600
        self.queue.enqueue(4)


class ByMssqlPython(ByProgram):
    driver = DRIVERS[0]


class ByPyodbc(ByProgram):
    driver = DRIVERS[1]


class ByPythonTds(ByProgram):
    driver = DRIVERS[2]


class ByPymssql(ByProgram):
    driver = DRIVERS[3]


class Values(unittest.TestCase):
    """A wrong value is the same error with each driver and without one."""

    def test_what_is_invalid(self) -> None:
        naive = datetime.datetime(2100, 1, 1)
        aware = naive.replace(tzinfo=datetime.timezone.utc)
        cases: list[tuple[dict[str, Any], str]] = [
            ({"kind": ""}, "kind is ''; it must have 1 to 64"),
            ({"kind": "a b"}, "kind is 'a b'; it must have 1 to 64"),
            ({"key": "k" * 257}, "it must have 1 to 256 characters"),
            ({"key": "control\0"}, "no control characters"),
            ({"group": " g"}, "no spaces"),
            ({"priority": 32_768}, "priority is 32768; it must be -32768 to 32767"),
            ({"max_attempts": 0}, "max_attempts is 0; it must be 1 to 2147483647"),
            ({"delay": -1}, "delay is -1; it must be 0 to 315360000 seconds"),
            ({"delay": float("nan")}, "delay is nan"),
            ({"start_within": 0}, "start_within is 0; it must be 0.001 to 315360000 seconds"),
            ({"time_limit": datetime.timedelta(days=25)}, "time_limit is 25 days.*; it must be 0.001 to 2147483.647"),
            ({"delay": 1, "due_at": aware}, "delay and due_at cannot be combined"),
            ({"start_within": 1, "start_by": aware}, "start_within and start_by cannot be combined"),
            ({"due_at": naive}, "due_at is 2100-01-01 00:00:00, without a time zone"),
            ({"headers": {"readpast-x": "1"}}, "must not begin with readpast-"),
            ({"headers": {"x": "y" * 1_293}}, "headers has 1301 characters"),
            ({"headers": {"x": float("nan")}}, "headers cannot become JSON"),
            ({"correlation_id": "7"}, "correlation_id is '7'; it must be a UUID"),
            ({"batch": 0}, "batch is 0"),
            ({"needs": {"threads": 0}}, "the need of threads is 0; it must be 1 to 1024"),
            ({"needs": {"memory": 1 << 51}}, "the need of memory is"),
            ({"needs": {"gpu": 1_000_001}}, "the need of gpu is 1000001; it must be 1 to 1000000"),
            ({"needs": {"a b": 1}}, "a name in needs is 'a b'"),
            ({"after": [0]}, "an id in after is 0"),
            ({"on_dead": "die"}, "on_dead is 'die'; it must be hold, cancel or run"),
        ]
        for values, message in cases:
            with self.subTest(values), self.assertRaisesRegex(InvalidJob, message):
                NewJob(1, **values).prepared()

    def test_what_has_a_wrong_type(self) -> None:
        cases: list[tuple[str, Any, str]] = [
            ("kind", 7, "kind is 7; it must be text"),
            ("key", b"k", "key is b'k'; it must be text"),
            ("group", 7, "group is 7; it must be text"),
            ("priority", "1", "priority is '1'; it must be an integer"),
            ("priority", None, "priority is None; it must be an integer"),
            ("max_attempts", 1.5, "max_attempts is 1.5; it must be an integer"),
            ("max_attempts", True, "max_attempts is True; it must be an integer"),
            ("delay", "1", "delay is '1'; it must be seconds or a timedelta"),
            ("start_within", [], r"start_within is \[\]; it must be seconds"),
            ("time_limit", True, "time_limit is True; it must be seconds"),
            ("due_at", "2100-01-01", "due_at is '2100-01-01'; it must be a datetime with a time zone"),
            ("start_by", 7, "start_by is 7; it must be a datetime"),
            ("headers", [("a", "b")], "headers is .*; it must be a mapping"),
            ("headers", {7: "x"}, "a name in headers is 7; it must be text"),
            ("headers", {"x": {1}}, "headers cannot become JSON: Object of type set"),
            ("correlation_id", 7, "correlation_id is 7; it must be a UUID"),
            ("batch", "1", "batch is '1'; it must be an integer"),
            ("needs", ["gpu"], "needs is .*; it must be a mapping"),
            ("needs", {7: 1}, "a name in needs is 7; it must be text"),
            ("needs", {"gpu": 0.5}, "the need of gpu is 0.5; it must be an integer"),
            ("after", 7, "after is 7; it must be a sequence of job ids"),
            ("after", "12", "after is '12'; it must be a sequence of job ids"),
            ("after", package.Enqueued(1, False), "an id in after is False; it must be an integer"),
        ]
        for name, value, message in cases:
            with self.subTest(name, value=value), self.assertRaisesRegex(TypeError, message):
                NewJob(1, **{name: value}).prepared()

    def test_the_ends_of_the_ranges(self) -> None:
        prepared = NewJob(
            1, priority=-32_768, max_attempts=1, delay=0, start_within=0.001, time_limit=2_147_483.647,
            batch=1, needs={"memory": 1 << 50, "a=b": 1_000_000}, headers={"x": "y" * 1_292}, after=(1,),
        ).prepared()  # fmt: skip
        self.assertEqual((prepared.settings["time_limit_ms"], prepared.after), (2_147_483_647, [1]))

    def test_a_new_job_is_no_payload(self) -> None:
        job = NewJob({"a": 1}, kind="k")
        self.assertEqual(NewJob(job).prepared(), job.prepared())
        with self.assertRaisesRegex(TypeError, "pass only the NewJob"):
            Queue("jobs", "Server=x").enqueue(job, key="k")

    def test_what_is_no_list_of_jobs(self) -> None:
        for jobs in ("abc", b"abc", memoryview(b"abc"), {"a": 1}):
            with self.assertRaisesRegex(TypeError, "pass a list"):
                Queue("jobs", "Server=x").enqueue_many(jobs)


class ConnectionStrings(unittest.TestCase):
    def test_keys_and_values(self) -> None:
        parse = _drivers.parse
        self.assertEqual(
            parse("Server = tcp:db1,1433 ;UID=me; PWD = a=b ;"),
            {"server": "tcp:db1,1433", "userid": "me", "password": "a=b"},
        )
        self.assertEqual(parse("Password=\"a;\"\"b'\";User='x;''y\"'"), {"password": "a;\"b'", "userid": "x;'y\""})
        self.assertEqual(parse(";;"), {})
        with self.assertRaises(package.Error) as error:
            parse("Server=x;secret")
        self.assertNotIn("secret", str(error.exception))

    def test_servers(self) -> None:
        for text, expected in [
            ("tcp:db1,1433", ("db1", None, 1433)),
            ("db1\\sales", ("db1", "sales", None)),
            (".", ("localhost", None, None)),
            ("127.0.0.1, 50", ("127.0.0.1", None, 50)),
        ]:
            settings = Settings(f"Server={text}")
            self.assertEqual((settings.host, settings.instance, settings.port), expected)

    def test_a_driver_that_would_not_check_the_certificate_is_not_used(self) -> None:
        pymssql = DRIVERS[-1]
        for text in ("Server=x", "Server=x;Encrypt=strict", "Server=x;Authentication=Active Directory Default"):
            with self.assertRaises(Unsuitable):
                pymssql.connect(None, Settings(text))

    def test_python_tds_does_not_encrypt_without_pyopenssl(self) -> None:
        missing = mock.patch.dict(sys.modules, {"OpenSSL": None, "OpenSSL.SSL": None})
        with missing, self.assertRaisesRegex(Unsuitable, "it needs pyOpenSSL"):
            DRIVERS[2].connect(None, Settings("Server=x;TrustServerCertificateCA=ca.pem"))

    def test_the_numbers_of_errors(self) -> None:
        by_pytds = Exception("there is no batch 99", None)
        by_pytds.number = 58021  # type: ignore[attr-defined]
        for error, number in [
            (by_pytds, 58021),
            (Exception(58021, b"there is no batch 99"), 58021),
            (Exception("42000", "[42000] [SQL Server]there is no batch 99 (58021) (SQLExecDirectW)"), 58021),
            (Exception("there is no batch 99"), None),
        ]:
            self.assertEqual(_drivers.number_of(error), number)

    def test_usage_is_no_part_of_an_error(self) -> None:
        text = "error: invalid value 'x' for '<ID>'\n\n  tip: none\n\nFor more information, try '--help'."
        self.assertEqual(str(_by_program._error(2, text)), "invalid value 'x' for '<ID>'")

    def test_a_misspelt_value_does_not_switch_encryption_off(self) -> None:
        for text in ("Server=x;Encrypt=ture", "Server=x;Encrypt=1", "Server=x;TrustServerCertificate=nein"):
            with self.assertRaisesRegex(package.Error, "must be true or false"):
                _drivers._odbc_keys(Settings(text))

    def test_what_azure_shows_suits_a_driver(self) -> None:
        settings = Settings(
            "Server=tcp:x.database.windows.net,1433;Initial Catalog=db;Persist Security Info=False;User ID=me;"
            "Password=x;MultipleActiveResultSets=False;Encrypt=True;TrustServerCertificate=False;Connection Timeout=30;"
        )
        self.assertIn("Database={db};", _drivers._odbc_keys(settings))
        self.assertEqual(settings.login_timeout_s, 30)

    def test_values_are_quoted_for_odbc(self) -> None:
        keys = _drivers._odbc_keys(Settings('Server=db1;User ID=me;Password="a;b}c"'))
        self.assertIn("PWD={a;b}}c};", keys)
        self.assertIn("Encrypt={yes};TrustServerCertificate={no};", keys)

    def test_the_id_of_a_result_is_a_number(self) -> None:
        with self.assertRaises(ValueError):
            Queue("jobs", "Server=x").result("1); SELECT (1")  # type: ignore[arg-type]

    def test_the_schema_is_the_programs(self) -> None:
        with mock.patch.dict(os.environ, READPAST_SCHEMA="work"):
            self.assertEqual(Queue("jobs")._schema, "work")
            self.assertEqual(Queue("jobs", schema="other")._schema, "other")

    @needs_posix
    def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have(self) -> None:
        queue = Queue("jobs")
        with queue._lock:
            child = os.fork()
            if child == 0:
                os._exit(0 if queue._lock.acquire(timeout=1) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_foreign_connection_is_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "type is object, which is not a driver's"):
            Queue("jobs", connection=object())

    def test_without_a_connection_string(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop("READPAST_URL", None)
            with self.assertRaisesRegex(package.Error, "set READPAST_URL"):
                Queue("jobs").enqueue(1)


if __name__ == "__main__":
    unittest.main()
