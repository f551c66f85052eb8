"""Plays the scripts of ../tests/lock_scenarios (its README tells the format) through pymssql.

    python scenarios.py PORT
"""

import pathlib
import sys
import threading
import time

import pymssql

#: Seconds; whatever takes longer will not happen any more.
PATIENCE = 20


def parse(text):
    """The scenarios of a script: (name, steps); a step is [who, expected, sql, line]."""
    scenarios = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("--- "):
            if scenarios and scenarios[-1][1]:
                scenarios[-1][1][-1][2] += line + "\n"
            continue
        word, _, rest = line.removeprefix("--- ").partition(" ")
        if word == "scenario":
            scenarios.append((rest.strip(), []))
        elif word != "source":
            scenarios[-1][1].append([word, rest.strip(), "", number])
    return scenarios


def text_of(value):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    return str(value).rstrip(" ")


class Session:
    """A connection with a thread for the batch that runs on it."""

    def __init__(self, port, database):
        self.connection = pymssql.connect(
            "127.0.0.1", "sa", "readpast", database, port=str(port), autocommit=True, encryption="off"
        )
        self.thread = None
        self.outcome = self.run("SELECT CAST(@@SPID AS int)")
        self.spid = int(self.outcome[1][0])

    def run(self, sql):
        """("rows", texts), ("error", number) or ("broken", message)."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(sql)
            rows = []
            while True:
                if cursor.description:
                    rows += [",".join(text_of(value) for value in row) for row in cursor.fetchall()]
                if not cursor.nextset():
                    return "rows", rows
        except pymssql.Error as error:
            number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
            # DB-Library's own errors, such as a connection that is gone, begin with 20001.
            return ("error", number) if 0 < number < 20000 or number >= 50000 else ("broken", str(error))

    def start(self, sql):
        assert not self.is_running(), "it is still waiting"

        def work():
            self.outcome = self.run(sql)

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def is_running(self):
        return self.thread is not None and self.thread.is_alive()

    def finish(self):
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "it goes on waiting"
        return self.outcome


class Player:
    def __init__(self, port, database):
        self.port, self.database = port, database
        self.sessions = {}

    def until_blocked(self, session):
        question = f"SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id = {session.spid} AND wait_type LIKE N'LCK%'"
        observer = Session(self.port, self.database)
        end = time.monotonic() + PATIENCE
        try:
            while observer.run(question) != ("rows", ["1"]):
                assert session.is_running(), f"it does not block: {session.finish()}"
                assert time.monotonic() < end, "it neither ends nor blocks"
        finally:
            observer.connection.close()

    def step(self, who, expected, sql):
        if expected == "disconnect":
            self.sessions.pop(who).connection.close()
            return
        if who not in self.sessions:
            self.sessions[who] = Session(self.port, self.database)
        session = self.sessions[who]
        waits = expected in ("blocks", "still blocked")
        if not expected.startswith("resumes") and expected != "still blocked":
            session.start(sql.replace("$(database)", self.database))
        if waits:
            self.until_blocked(session)
            return
        outcome = session.finish()
        kind, _, wanted = expected.removeprefix("resumes").strip().partition(" ")
        if kind == "rows":
            as_expected = outcome == ("rows", [] if wanted == "none" else wanted.split(" / "))
        elif kind == "error":
            as_expected = outcome == ("error", int(wanted))
        else:
            as_expected = outcome[0] == (kind or "rows")
        assert as_expected, f"came: {outcome}"

    def play(self, steps):
        for who, expected, sql, line in steps:
            if who != "setup" and "setup" in self.sessions:
                self.sessions.pop("setup").connection.close()
            try:
                self.step(who, expected, sql)
            except AssertionError as error:
                raise AssertionError(f"line {line}: {who} {expected}: {error}") from None


def main(port):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    folder = pathlib.Path(__file__).parent.parent / "tests" / "lock_scenarios"
    home = Session(port, "readpast")
    for script in sorted(folder.glob("*.sql")):
        for name, steps in parse(script.read_text(encoding="utf-8")):
            database = f"scenario_{sum(counts.values())}"
            kind, made = home.run(f"CREATE DATABASE {database}")
            try:
                assert kind == "rows", made
                Player(port, database).play(steps)
                counts["passed"] += 1
            except AssertionError as error:
                counts["failed"] += 1
                print(f"lock scenarios: {script.name}: {name}: failed: {error}", flush=True)
    print("lock scenarios: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()), flush=True)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
