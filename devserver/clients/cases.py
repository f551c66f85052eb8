"""What a queue's client does, played through a Python client against the dev server.

    python cases.py CLIENT PORT on|off

Prints a line for each case and ends with the counts. A case is a function `case_…`; one that asks for what the client
does not have is skipped, with the reason.
"""

import datetime
import decimal
import itertools
import pathlib
import re
import sys
import threading
import time
import traceback
import uuid

from drivers import DRIVERS

EMOJI = "žluťoučký kůň 日本語 😀👩‍👩‍👧"
TEN_MEGABYTES = 10 * 1024 * 1024


class Skip(Exception):
    """The client does not have what the case is about."""


def expect(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r:.1000} instead of {expected!r:.1000}")


def needs(driver, feature):
    if feature in driver.lacks:
        raise Skip(driver.lacks[feature])


def error_of(driver, connection, sql, parameters=()):
    """The error that a statement raises, in the words of `Driver.error`."""
    try:
        driver.results(connection, sql, parameters)
    except Exception as exception:
        return driver.error(exception)
    raise AssertionError(f"no error from {sql}")


def case_batches(driver):
    connection = driver.connect()
    sets = driver.results(
        connection,
        "SET NOCOUNT ON; DECLARE @n int = 2; SELECT @n AS n, N'a' AS t; PRINT N'said'; SELECT n FROM (VALUES (1), (2), (3)) v (n)",
    )
    expect(sets, [[(2, "a")], [(1,), (2,), (3,)]])
    expect(driver.value(connection, "SELECT DB_NAME()"), "readpast")
    connection.close()


def case_row_counts(driver):
    connection = driver.connect()
    driver.results(connection, "CREATE TABLE #t (id int NOT NULL PRIMARY KEY, n int NOT NULL)")
    cursor = connection.cursor()
    cursor.execute("INSERT #t (id, n) VALUES (1, 0), (2, 0), (3, 0)")
    expect(cursor.rowcount, 3)
    cursor.execute("UPDATE #t SET n = 1 WHERE id > 1")
    expect(cursor.rowcount, 2)
    cursor.execute("DELETE #t WHERE id = 9")
    expect(cursor.rowcount, 0)
    cursor.close()
    connection.close()


def case_every_type_comes_back(driver):
    """As literals of the server, so that each goes out in its own type."""
    connection = driver.connect()
    columns = {
        "CAST(1 AS bit)": True,
        "CAST(255 AS tinyint)": 255,
        "CAST(-2 AS smallint)": -2,
        "CAST(-2147483648 AS int)": -2147483648,
        "CAST(9223372036854775807 AS bigint)": 9223372036854775807,
        "CAST(-123.45 AS decimal(5, 2))": decimal.Decimal("-123.45"),
        "CAST(99999999999999999999999999999999999999 AS numeric(38, 0))": decimal.Decimal("9" * 38),
        "CAST(1.5 AS real)": 1.5,
        "CAST(-0.1 AS float)": -0.1,
        "CAST('abc' AS char(3))": "abc",
        "CAST('für 5 €' AS varchar(10))": "für 5 €",
        "CAST(N'日本' AS nchar(2))": "日本",
        f"CAST(N'{EMOJI}' AS nvarchar(50))": EMOJI,
        f"CAST(N'{EMOJI}' AS nvarchar(max))": EMOJI,
        "CAST(0x00FF AS binary(2))": b"\x00\xff",
        "CAST(0x00FF AS varbinary(8))": b"\x00\xff",
        "CAST(0x00FF AS varbinary(max))": b"\x00\xff",
        "CAST('2026-11-21' AS date)": datetime.date(2026, 11, 21),
        "CAST('23:59:59.123456' AS time(6))": datetime.time(23, 59, 59, 123456),
        "CAST('2026-11-21T12:34:56.120' AS datetime)": datetime.datetime(2026, 11, 21, 12, 34, 56, 120000),
        "CAST('2026-11-21T12:34:56.123456' AS datetime2(6))": datetime.datetime(2026, 11, 21, 12, 34, 56, 123456),
        "CAST('0E984725-C51C-4BF4-9960-E1C80E27ABA0' AS uniqueidentifier)": uuid.UUID("0e984725-c51c-4bf4-9960-e1c80e27aba0"),
    }
    row = driver.rows(connection, "SELECT " + ", ".join(columns))[0]
    for (sql, expected), actual in zip(columns.items(), row, strict=True):
        if actual != expected:
            raise AssertionError(f"{sql}: {actual!r} instead of {expected!r}")
    nulls = driver.rows(connection, "SELECT " + ", ".join(f"NULLIF({sql}, {sql})" for sql in columns))[0]
    expect(nulls, (None,) * len(columns))
    connection.close()


def case_parameters(driver):
    connection = driver.connect()
    driver.results(
        connection,
        """CREATE TABLE #t (i bigint NULL, n decimal(20, 6) NULL, f float NULL, b bit NULL, s nvarchar(100) NULL,
        d datetime2 NULL, dd date NULL, x varbinary(100) NULL, u uniqueidentifier NULL)""",
    )
    row = (
        9007199254740993, decimal.Decimal("-12345.678901"), 0.1, True, EMOJI, datetime.datetime(2026, 11, 21, 1, 2, 3, 456000),
        datetime.date(1999, 12, 31), driver.binary(bytes(range(100))), uuid.UUID(int=7),
    )
    insert = "INSERT #t (i, n, f, b, s, d, dd, x, u) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    driver.results(connection, insert, row)
    expect(driver.rows(connection, "SELECT * FROM #t"), [row])
    driver.results(connection, "DELETE #t WHERE s = ? AND i = ?", (EMOJI, row[0]))
    expect(driver.rows(connection, "SELECT * FROM #t"), [])
    driver.results(connection, "INSERT #t (i, s, d) VALUES (?, ?, ?)", (None, None, None))
    expect(driver.rows(connection, "SELECT * FROM #t"), [(None,) * 9])
    texts = ["", "it's", "100% ?", "x" * 4001] + ([] if "NUL characters" in driver.lacks else ["a\0b"])
    for text in texts:
        expect(driver.value(connection, "SELECT ?", (text,)), text)
    connection.close()


def case_ten_megabytes_both_ways(driver):
    connection = driver.connect()
    driver.results(connection, "CREATE TABLE #t (x varbinary(max) NULL, s nvarchar(max) NULL)")
    data = bytes(itertools.islice(itertools.cycle(range(251)), TEN_MEGABYTES))
    text = "0123456789abcdeф" * (TEN_MEGABYTES // 32)
    driver.results(connection, "INSERT #t (x, s) VALUES (?, ?)", (driver.binary(data), text))
    lengths = driver.rows(connection, "SELECT DATALENGTH(x), DATALENGTH(s) FROM #t")
    expect(lengths, [(len(data), len(text) * 2)])
    [(returned, returned_text)] = driver.rows(connection, "SELECT x, s FROM #t")
    if returned != data or returned_text != text:
        raise AssertionError("another value came back")
    connection.close()


def case_text_ntext_and_image_come_back(driver):
    connection = driver.connect()
    driver.results(connection, "CREATE TABLE #old (id int NOT NULL, a text, b ntext, c image)")
    driver.results(connection, "INSERT #old VALUES (1, 'café', N'日本', 0x0102), (2, NULL, NULL, NULL), (3, '', '', 0x00)")
    driver.results(connection, "INSERT #old (id, a, b) VALUES (4, ?, ?)", ("a" * 9000, EMOJI))
    rows = driver.rows(connection, "SELECT a, b, c, id, CAST('t' AS text) FROM #old ORDER BY id")
    expect(rows[0], ("café", "日本", b"\x01\x02", 1, "t"))
    expect(rows[1:3], [(None, None, None, 2, "t"), ("", "", b"\x00", 3, "t")])
    expect(rows[3], ("a" * 9000, EMOJI, None, 4, "t"))
    connection.close()


def case_procedures(driver):
    connection = driver.connect()
    driver.results(
        connection,
        """CREATE OR ALTER PROCEDURE dbo.add_up @a int, @t nvarchar(50), @sum bigint OUTPUT, @text nvarchar(100) OUTPUT AS
        SET NOCOUNT ON; SET @sum = @a + 1; SET @text = @t + N'!'; RETURN 7""",
    )
    status, outputs = driver.call(
        connection, "dbo.add_up", [("@a", 41), ("@t", EMOJI)], [("@sum", 0), ("@text", "")]
    )
    expect((status, outputs), (7, [42, EMOJI + "!"]))
    driver.results(connection, "CREATE OR ALTER PROCEDURE dbo.two_results @a int AS SET NOCOUNT ON; SELECT @a; INSERT #t (id) VALUES (@a); SELECT id FROM #t")
    driver.results(connection, "CREATE TABLE #t (id int NOT NULL)")
    expect(driver.results(connection, "EXEC dbo.two_results @a = ?", (5,)), [[(5,)], [(5,)]])
    connection.close()


def case_table_valued_parameters(driver):
    needs(driver, "table-valued parameters")
    import pytds

    connection = driver.connect()
    driver.results(connection, "IF TYPE_ID(N'dbo.pair_list') IS NULL CREATE TYPE dbo.pair_list AS TABLE (id int NOT NULL PRIMARY KEY, t nvarchar(20) NULL)")
    columns = [
        pytds.Column("id", type=pytds.tds_types.IntType()), pytds.Column("t", type=pytds.tds_types.NVarCharType(20)),
    ]
    table = pytds.TableValuedParam("dbo.pair_list", columns, [(1, "a"), (2, None), (3, "😀")])
    cursor = connection.cursor()
    cursor.execute("SELECT id, t FROM %s ORDER BY id", (table,))
    expect([tuple(row) for row in cursor.fetchall()], [(1, "a"), (2, None), (3, "😀")])
    connection.close()


def case_transactions(driver):
    connection = driver.connect(autocommit=False)
    driver.results(connection, "CREATE TABLE #t (id int NOT NULL PRIMARY KEY)")
    connection.commit()
    driver.results(connection, "INSERT #t (id) VALUES (?)", (1,))
    expect(driver.value(connection, "SELECT @@TRANCOUNT"), 1)
    connection.rollback()
    expect(driver.value(connection, "SELECT COUNT(*) FROM #t"), 0)
    driver.results(connection, "INSERT #t (id) VALUES (?)", (2,))
    connection.commit()
    connection.rollback()
    expect(driver.rows(connection, "SELECT id FROM #t"), [(2,)])
    connection.close()


def case_isolation_levels(driver):
    writer, reader = driver.connect(), driver.connect()
    driver.results(writer, "DROP TABLE IF EXISTS dbo.level; CREATE TABLE dbo.level (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT dbo.level (id, n) VALUES (1, 0)")
    driver.results(writer, "BEGIN TRANSACTION; UPDATE dbo.level SET n = 1")
    driver.results(reader, "SET LOCK_TIMEOUT 0; SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    expect(driver.value(reader, "SELECT n FROM dbo.level"), 1)
    driver.results(reader, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    expect("Lock request time out" in error_of(driver, reader, "SELECT n FROM dbo.level")["message"], True)
    driver.results(writer, "ROLLBACK; SET LOCK_TIMEOUT 0")
    driver.results(reader, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION; SELECT n FROM dbo.level WHERE id = 1")
    expect("Lock request time out" in error_of(driver, writer, "UPDATE dbo.level SET n = 2 WHERE id = 1")["message"], True)
    driver.results(reader, "COMMIT")
    driver.results(writer, "UPDATE dbo.level SET n = 2 WHERE id = 1; DROP TABLE dbo.level")
    writer.close()
    reader.close()


def case_a_waiting_statement_is_cancelled(driver):
    """By the client's own time-out, which sends an attention; the connection is used again afterwards."""
    holder = driver.connect()
    driver.results(holder, "DROP TABLE IF EXISTS dbo.waiting; CREATE TABLE dbo.waiting (id int NOT NULL PRIMARY KEY); INSERT dbo.waiting (id) VALUES (1)")
    driver.results(holder, "BEGIN TRANSACTION; UPDATE dbo.waiting SET id = 2")
    connection = driver.connect(timeout=1)
    started = time.monotonic()
    try:
        driver.results(connection, "UPDATE dbo.waiting SET id = 3")
    except Exception:
        pass
    else:
        raise AssertionError("the row is locked")
    if time.monotonic() - started > 10:
        raise AssertionError("it did not stop")
    # The lock is still held. Where the client closes the connection instead, nobody is told when the server sees that.
    if "use after a time-out" not in driver.lacks:
        expect(driver.value(connection, "SELECT 1"), 1)
        driver.results(holder, "ROLLBACK")
        expect(driver.value(holder, "SELECT id FROM dbo.waiting"), 1)
    else:
        driver.results(holder, "ROLLBACK")
    driver.results(holder, "DROP TABLE dbo.waiting")
    holder.close()


def case_lock_timeout_and_deadlock(driver):
    first, second = driver.connect(), driver.connect()
    driver.results(first, "DROP TABLE IF EXISTS dbo.pair; CREATE TABLE dbo.pair (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT dbo.pair (id, n) VALUES (1, 0), (2, 0)")
    driver.results(first, "BEGIN TRANSACTION; UPDATE dbo.pair SET n = 1 WHERE id = 1")
    error = error_of(driver, second, "SET LOCK_TIMEOUT 50; UPDATE dbo.pair SET n = 2 WHERE id = 1")
    expect("Lock request time out period exceeded" in error["message"], True)
    expect(error.get("number", 1222), 1222)
    driver.results(second, "SET LOCK_TIMEOUT -1; SET DEADLOCK_PRIORITY LOW; BEGIN TRANSACTION; UPDATE dbo.pair SET n = 2 WHERE id = 2")
    failed = []

    def cross():
        try:
            driver.results(second, "UPDATE dbo.pair SET n = 2 WHERE id = 1")
        except Exception as exception:
            failed.append(driver.error(exception))

    thread = threading.Thread(target=cross)
    thread.start()
    driver.results(first, "UPDATE dbo.pair SET n = 1 WHERE id = 2")
    thread.join(10)
    expect(len(failed), 1)
    expect("deadlock victim" in failed[0]["message"], True)
    expect(failed[0].get("number", 1205), 1205)
    driver.results(first, "COMMIT")
    expect(driver.value(second, "SELECT @@TRANCOUNT"), 0)
    expect(driver.rows(second, "SELECT n FROM dbo.pair ORDER BY id"), [(1,), (1,)])
    driver.results(first, "DROP TABLE dbo.pair")
    first.close()
    second.close()


def case_errors(driver):
    connection = driver.connect()
    error = error_of(driver, connection, "SELECT 1;\n\nTHROW 50042, N'because 😀', 3")
    expect("because 😀" in error["message"], True)
    expect((error.get("number", 50042), error.get("state", 3), error.get("line", 3)), (50042, 3, 3))
    for sql, number, words in [
        ("SELECT * FROM dbo.nowhere", 208, "Invalid object name 'dbo.nowhere'."),
        ("SELECT 1 +", 102, "Incorrect syntax near '+'."),
        ("EXEC dbo.nothing", 2812, "Could not find stored procedure 'dbo.nothing'."),
        ("SELECT 1 / 0", 8134, "Divide by zero error encountered."),
        ("DECLARE @i int = N'x'", 245, "Conversion failed when converting the nvarchar value 'x' to data type int."),
        ("SELECT CAST(N'<a/>' AS xml)", 59000, "not supported by the readpast dev server"),
    ]:
        error = error_of(driver, connection, sql)
        if words not in error["message"] or error.get("number", number) != number:
            raise AssertionError(f"{sql}: {error}")
    expect(driver.value(connection, "SELECT 1"), 1)
    connection.close()


def case_an_error_after_rows(driver):
    connection = driver.connect()
    try:
        driver.results(connection, "SELECT 1 AS a; RAISERROR (N'late', 16, 1)")
    except Exception as exception:
        expect("late" in driver.error(exception)["message"], True)
    else:
        raise AssertionError("the error after the rows was lost")
    expect(driver.value(connection, "SELECT 2"), 2)
    connection.close()


def case_prepared_statements(driver):
    needs(driver, "prepared statements")
    connection = driver.connect()
    driver.results(connection, "CREATE TABLE #t (id int NOT NULL PRIMARY KEY, s nvarchar(50) NULL)")
    cursor = connection.cursor()
    for number in range(5):
        cursor.execute("INSERT #t (id, s) VALUES (?, ?)", (number, f"row {number}"))
    cursor.executemany("INSERT #t (id, s) VALUES (?, ?)", [(number, None if number % 2 else "x") for number in range(5, 200)])
    expect(driver.rows(connection, "SELECT COUNT(*), COUNT(s) FROM #t"), [(200, 102)])
    for number in (3, 150):
        cursor.execute("SELECT id FROM #t WHERE id = ?", (number,))
        expect([tuple(row) for row in cursor.fetchall()], [(number,)])
    cursor.close()
    connection.close()


def case_a_pooled_connection_is_reset(driver):
    needs(driver, "pool reset")
    connection = driver.connect(pooling=True)
    driver.results(connection, "CREATE TABLE #left (id int); SET LOCK_TIMEOUT 77; BEGIN TRANSACTION; SELECT 1")
    session = driver.value(connection, "SELECT @@SPID")
    connection.close()
    # The pool may hold others, and gives them out as it likes.
    opened = []
    while len(opened) < 100:
        opened.append(driver.connect(pooling=True))
        row = driver.rows(opened[-1], "SELECT @@SPID, OBJECT_ID(N'tempdb..#left'), @@LOCK_TIMEOUT, @@TRANCOUNT")[0]
        expect(row[1:], (None, -1, 0))
        if row[0] == session:
            break
    else:
        raise Skip("it did not come back from the pool")
    for connection in opened:
        connection.close()


def case_a_foreign_producer_and_worker(driver):
    """readpast's own scripts, and its queue through EXEC: enqueue, claim, finish."""
    connection = driver.connect()
    schema = installed(driver, connection)
    driver.results(connection, f"EXEC {schema}.create_queue @queue = N'emails'")
    payloads = [f"job {number} 😀".encode() for number in range(3)]
    for payload in payloads:
        driver.results(connection, f"EXEC {schema}.enqueue @queue = N'emails', @payload = ?", (driver.binary(payload),))
    register = f"EXEC {schema}.register_worker @queue = N'emails', @worker_id = ?, @name = N'foreign', @lease_ms = 60000"
    driver.results(connection, register, (WORKER,))
    claimed = driver.rows(connection, f"EXEC {schema}.claim @queue = N'emails', @worker_id = ?, @max = 2", (WORKER,))
    expect(len(claimed), 2)
    for job_id, payload, fence in sorted((row[0], row[9], row[1]) for row in claimed):
        expect((payload, fence), (payloads.pop(0), 1))
        finish = f"EXEC {schema}.finish_one @queue = N'emails', @worker_id = ?, @job_id = ?, @fence = ?"
        driver.results(connection, finish, (WORKER, job_id, fence))
    expect(driver.value(connection, f"SELECT COUNT(*) FROM {schema}.jobs"), 1)
    connection.close()


def case_a_bad_job_leaves_the_transaction_usable(driver):
    """`@on_bad = 'status'`, in the caller's transaction and under XACT_ABORT ON."""
    connection = driver.connect()
    schema = installed(driver, connection)
    driver.results(connection, f"EXEC {schema}.create_queue @queue = N'emails'; CREATE TABLE {schema}.orders (id int NOT NULL PRIMARY KEY)")
    enqueue = (
        f"DECLARE @status int, @refused nvarchar(2048), @job_id bigint; "
        f"EXEC @status = {schema}.enqueue @queue = N'emails', @text = N'x', @headers = ?, @on_bad = 'status', "
        f"@refused = @refused OUTPUT, @job_id = @job_id OUTPUT; SELECT @status, @refused, CASE WHEN @job_id IS NULL THEN 0 ELSE 1 END"
    )
    driver.results(connection, f"SET XACT_ABORT ON; BEGIN TRANSACTION; INSERT {schema}.orders VALUES (7)")
    bad = "headers must be a JSON object of up to 1300 characters, which begins with {"
    expect(driver.rows(connection, enqueue, ("[1]",)), [(58003, bad, 0)])
    expect(driver.rows(connection, enqueue, ('{"tenant":"acme"}',)), [(0, None, 1)])
    driver.results(connection, f"INSERT {schema}.orders VALUES (8); COMMIT TRANSACTION")
    counts = f"SELECT (SELECT COUNT(*) FROM {schema}.orders), (SELECT COUNT(*) FROM {schema}.jobs), @@TRANCOUNT"
    expect(driver.rows(connection, counts), [(2, 1, 0)])
    driver.results(connection, f"BEGIN TRANSACTION; INSERT {schema}.orders VALUES (9)")
    error = error_of(driver, connection, f"EXEC {schema}.enqueue @queue = N'emails', @text = N'x', @headers = ?", ("[1]",))
    expect(bad in error["message"], True)
    expect(driver.rows(connection, counts), [(2, 1, 0)])
    connection.close()


def case_an_operator_without_readpast(driver):
    """One worker is steered, a log read, all held, the views read, the duties done: by procedures, each in the audit."""
    connection = driver.connect()
    schema = installed(driver, connection)
    driver.results(connection, f"EXEC {schema}.create_queue @queue = N'emails'")
    for _ in range(2):
        driver.results(connection, f"EXEC {schema}.enqueue @queue = N'emails', @text = N'x', @kind = 'mail'")
    register = f"EXEC {schema}.register_worker @queue = N'emails', @worker_id = ?, @name = N'foreign', @lease_ms = 60000"
    driver.results(connection, register, (WORKER,))
    claimed = driver.rows(connection, f"EXEC {schema}.claim @queue = N'emails', @worker_id = ?, @max = 1", (WORKER,))
    job, fence = claimed[0][0], claimed[0][1]
    driver.results(
        connection,
        f"DECLARE @notes {schema}.progress_list; INSERT @notes (job_id, fence, log_end, log) VALUES (?, ?, 6, N'1 of 😀'); "
        f"EXEC {schema}.note_progress @worker_id = ?, @notes = @notes",
        (job, fence, WORKER),
    )
    log = driver.rows(connection, f"EXEC {schema}.job_logs @queue = N'emails', @job_id = ?", (job,))
    expect([(row[1], row[4], row[5]) for row in log], [(1, "1 of 😀", True)])

    asked = driver.rows(connection, f"EXEC {schema}.worker_wish @worker = N'foreign', @quiet = 1, @threads = 3")
    expect([row[1:] for row in asked], [("emails", "foreign")])
    beat = driver.results(connection, f"EXEC {schema}.heartbeat @worker_id = ?", (WORKER,))[-1][0]
    expect(beat[2:5], (True, False, 3))
    # Where no worker is left to do them.
    driver.results(connection, f"EXEC {schema}.unregister_worker @queue = N'emails', @worker_id = ?", (WORKER,))
    driver.results(connection, f"EXEC {schema}.do_duties")
    driver.results(connection, f"EXEC {schema}.pause_all @why = N'the price list is wrong'")
    expect(driver.rows(connection, f"SELECT queue, paused, held, ready FROM {schema}.queues_now"), [("emails", True, "schema", 2)])
    jobs = f"SELECT kind, state FROM {schema}.jobs_now ORDER BY job_id"
    expect(driver.rows(connection, jobs), [("mail", "ready"), ("mail", "ready")])
    expect(driver.rows(connection, f"SELECT name, is_live, quiet FROM {schema}.workers_now"), [("foreign", False, True)])
    driver.results(connection, f"EXEC {schema}.resume_all")
    driver.results(connection, f"EXEC {schema}.cancel @queue = N'emails', @job_id = ?, @why = N'late'", (job,))
    entries = driver.rows(connection, f"EXEC {schema}.list_audit")
    expect([row[5] for row in entries], ["cancel", "resume_all", "pause_all", "ask_worker", "create_queue"])
    expect([row[3] == row[4] == "sa" and row[2] is not None for row in entries], [True] * 5)
    expect(entries[0][7:9], (f'{{"jobs":[{job}],"named":1,"why":"late"}}', 1))

    # What a program notes for a person covers its calls.
    driver.results(
        connection,
        f"DECLARE @audit bigint; EXEC {schema}.begin_audit @who = N'maria', @action = 'pause', @audit_id = @audit OUTPUT; "
        f"EXEC {schema}.pause @queue = N'emails', @audit_id = @audit; EXEC {schema}.end_audit @audit",
    )
    expect([row[3:6:2] for row in driver.rows(connection, f"EXEC {schema}.list_audit @max = 2")], [("maria", "pause"), ("sa", "cancel")])
    connection.close()


def case_the_query_of_the_autoscaler(driver):
    """deploy/kubernetes/keda, as it stands there, by a login that is a monitor and nothing else."""
    connection = driver.connect()
    schema = installed(driver, connection)
    text = (ROOT / "deploy" / "kubernetes" / "keda" / "scaledobject.yaml").read_text(encoding="utf-8")
    query = re.search(r"^ *query: (.*)$", text, re.MULTILINE)[1].replace("readpast.", f"{schema}.")
    user, password = f"scaler_{schema}", "Ab1!4rdvark-9zebra"
    for statement in (
        f"EXEC {schema}.create_queue @queue = N'work'", f"CREATE LOGIN {user} WITH PASSWORD = '{password}'",
        f"CREATE USER {user} FOR LOGIN {user}", f"ALTER ROLE {schema}_monitor ADD MEMBER {user}",
    ):
        driver.results(connection, statement)
    scaler = driver.connect(user=user, password=password)
    # One row of one column, and nothing after it: that is all that KEDA reads.
    expect(driver.results(scaler, query), [[(0,)]])
    for _ in range(3):
        driver.results(connection, f"EXEC {schema}.enqueue @queue = N'work', @text = N'x'")
    expect(driver.results(scaler, query), [[(1,)]])
    error_of(driver, scaler, f"SELECT COUNT(*) FROM {schema}.jobs")
    scaler.close()
    connection.close()


ROOT = pathlib.Path(__file__).parents[2]


def installed(driver, connection):
    """The schema in which readpast's own scripts were run."""
    schema = "q_" + uuid.uuid4().hex[:12]
    for script in sorted((ROOT / "sql").glob("[0-9]*.sql")):
        text = script.read_text(encoding="utf-8").replace("$(schema)", schema)
        for batch in split_at_go(text):
            driver.results(connection, batch)
    return schema


WORKER = uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")


def split_at_go(text):
    """The batches of a script: sqlcmd ends one at a line that says GO."""
    batch = []
    for line in text.splitlines():
        if line.strip().upper() == "GO":
            yield "\n".join(batch)
            batch = []
        else:
            batch.append(line)
    if "".join(batch).strip():
        yield "\n".join(batch)


def main(name, port, tls):
    driver = DRIVERS[name](int(port), tls == "on")
    label = f"{name}{' TLS' if driver.tls else ''}"
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case_name, case in [item for item in globals().items() if item[0].startswith("case_")]:
        case_name = case_name.removeprefix("case_").replace("_", " ")
        try:
            case(driver)
            outcome, why = "passed", ""
        except Skip as skip:
            outcome, why = "skipped", f" ({skip})"
        except Exception as exception:
            outcome, why = "failed", f": {str(exception)[:1000]}"
            traceback.print_tb(exception.__traceback__)
        counts[outcome] += 1
        if outcome != "passed" or "-v" in sys.argv:
            print(f"{label}: {case_name}: {outcome}{why}", flush=True)
    print(f"{label}: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()), flush=True)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
