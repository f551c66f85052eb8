import contextlib
import re
import subprocess

import pymssql


@contextlib.contextmanager
def sql_server():
    """A server for one test; what connects to it."""
    program = subprocess.Popen(["readpast-devserver", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        found = (re.match(r"Server=tcp:127\.0\.0\.1,(\d+);", line) for line in program.stdout)
        port = next(match[1] for match in found if match)
        yield lambda: pymssql.connect("127.0.0.1", "sa", "readpast", "readpast", port=port)
    finally:
        program.terminate()
        program.wait()


def test_an_order_is_taken_once():
    with sql_server() as connect, connect() as one, connect() as other:
        ours, theirs = one.cursor(), other.cursor()
        ours.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY); INSERT dbo.orders VALUES (1), (2)")
        one.commit()
        take = "DELETE TOP (1) FROM dbo.orders WITH (ROWLOCK, READPAST) OUTPUT deleted.id"
        ours.execute(take)
        theirs.execute(take)
        assert {ours.fetchone()[0], theirs.fetchone()[0]} == {1, 2}


test_an_order_is_taken_once()
print("the example is right")
