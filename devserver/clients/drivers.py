"""The Python clients behind one small face, so that each plays the cases of cases.py unchanged."""

import os
import re
import ssl


class Driver:
    """A client: how it connects, how it writes a parameter, what its errors tell."""

    #: How a parameter stands in a statement.
    mark = "%s"
    #: Features that the client itself does not have, with the reason.
    lacks = {}

    def __init__(self, port, tls):
        self.port = port
        self.tls = tls

    @staticmethod
    def binary(data):
        """Bytes as a parameter."""
        return data

    def connect(self, autocommit=True, timeout=0, pooling=False, user="sa", password="readpast"):
        """A connection; `timeout` (seconds, 0: none) is for each statement on it."""
        raise NotImplementedError

    def results(self, connection, sql, parameters=()):
        """Every result set of a batch, each a list of tuples."""
        cursor = connection.cursor()
        try:
            if parameters:
                cursor.execute(sql.replace("?", self.mark), tuple(parameters))
            else:
                cursor.execute(sql)
            sets = []
            while True:
                if cursor.description:
                    sets.append([tuple(row) for row in cursor.fetchall()])
                if not cursor.nextset():
                    return sets
        finally:
            cursor.close()

    def rows(self, connection, sql, parameters=()):
        """The first result set of a batch."""
        return self.results(connection, sql, parameters)[0]

    def value(self, connection, sql, parameters=()):
        """The only value of a batch."""
        return self.rows(connection, sql, parameters)[0][0]

    def call(self, connection, procedure, arguments, outputs):
        """Calls a procedure that returns no rows: (return code, values of its output parameters).

        `arguments` and `outputs` are pairs of name and value; of an output the value only tells the type.
        """
        raise NotImplementedError

    def error(self, exception):
        """What the client tells of a server error: number and message, and state and line where it does."""
        raise NotImplementedError


class PyMssql(Driver):
    """pymssql: FreeTDS by DB-Library. It writes parameters into the statement's text."""

    name = "pymssql"
    lacks = {
        "NUL characters": "pymssql writes parameters as literals, which end at a NUL",
        "table-valued parameters": "FreeTDS has none",
        "prepared statements": "pymssql prepares nothing",
        "pool reset": "pymssql has no pool",
        "use after a time-out": "pymssql closes the connection then",
    }

    def connect(self, autocommit=True, timeout=0, pooling=False, user="sa", password="readpast"):
        import pymssql

        connection = pymssql.connect(
            "127.0.0.1", user, password, "readpast", port=str(self.port), timeout=timeout, autocommit=autocommit,
            encryption="require" if self.tls else "off",
        )
        # DB-Library has one time-out for the whole process, and pymssql sets none for 0: that of an earlier connection would stay.
        connection._conn.query_timeout = timeout
        return connection

    def call(self, connection, procedure, arguments, outputs):
        import pymssql

        cursor = connection.cursor()
        passed = [value for _, value in arguments]
        passed += [pymssql.output(type(value), value) for _, value in outputs]
        returned = cursor.callproc(procedure, tuple(passed))
        return cursor.returnvalue, list(returned)[len(arguments):]

    def error(self, exception):
        number, message = exception.args[0], exception.args[1]
        return {"number": number, "message": message.decode() if isinstance(message, bytes) else message}


class PyTds(Driver):
    """python-tds: TDS in pure Python."""

    name = "python-tds"
    lacks = {"prepared statements": "python-tds prepares nothing"}

    @staticmethod
    def binary(data):
        import pytds

        return pytds.Binary(data)

    def connect(self, autocommit=True, timeout=0, pooling=False, user="sa", password="readpast"):
        import pytds

        # It trusts a certificate only that it has as a file, so the server's own is fetched first (as TDS 8.0 shows it).
        trust = {"cafile": certificate_file(self.port), "validate_host": False} if self.tls else {}
        return pytds.connect(
            "127.0.0.1", "readpast", user, password, port=self.port, timeout=timeout or None, autocommit=autocommit,
            pooling=pooling, **trust,
        )

    def call(self, connection, procedure, arguments, outputs):
        import pytds

        cursor = connection.cursor()
        # The outputs first: it files their values by their place in the call, and finds only the first so many.
        passed = {name: pytds.output(value=value, param_type=type(value)) for name, value in outputs}
        passed |= dict(arguments)
        cursor.callproc(procedure, passed)
        return cursor.get_proc_return_status(), cursor.get_proc_outputs()

    def error(self, exception):
        return {
            "number": exception.number, "message": exception.message, "state": exception.state,
            "line": exception.line,
        }


class MssqlPython(Driver):
    """mssql-python: Microsoft's driver, over ODBC Driver 18."""

    name = "mssql-python"
    provider = "msodbcsql18"
    mark = "?"
    lacks = {"table-valued parameters": "mssql-python does not bind tables"}

    def connect(self, autocommit=True, timeout=0, pooling=False, user="sa", password="readpast"):
        os.environ["MSSQL_PYTHON_NATIVE_PROVIDER"] = self.provider
        import mssql_python

        encrypt = "yes" if self.tls else "no"
        connection = mssql_python.connect(
            f"Server=127.0.0.1,{self.port};Database=readpast;UID={user};PWD={password};Encrypt={encrypt};"
            "TrustServerCertificate=yes",
            autocommit=autocommit,
        )
        # The argument of `connect` by that name is for the login.
        connection.timeout = timeout
        return connection

    def call(self, connection, procedure, arguments, outputs):
        # It has no output parameters of its own, so a batch hands them out as rows.
        types = {int: "bigint", str: "nvarchar(4000)", bytes: "varbinary(8000)"}
        declared = "".join(f"DECLARE {name} {types[type(value)]}; " for name, value in outputs)
        passed = ", ".join([f"{name} = ?" for name, _ in arguments] + [f"{name} = {name} OUTPUT" for name, _ in outputs])
        names = ", ".join(["@status"] + [name for name, _ in outputs])
        sets = self.results(
            connection,
            f"SET NOCOUNT ON; DECLARE @status int; {declared}EXEC @status = {procedure} {passed}; SELECT {names}",
            [value for _, value in arguments],
        )
        status, *returned = sets[-1][0]
        return status, returned

    def error(self, exception):
        return {"message": str(exception)}


class MssqlTds(MssqlPython):
    """mssql-python over Microsoft's `mssql-tds`, its TDS client in Rust."""

    name = "mssql-tds"
    provider = "mssql-odbc"


DRIVERS = {driver.name: driver for driver in (PyMssql, PyTds, MssqlPython, MssqlTds)}


def certificate_file(port):
    path = os.path.join(os.environ.get("CLIENTS_SCRATCH", "."), f"certificate-{port}.pem")
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.write(ssl.get_server_certificate(("127.0.0.1", port)))
    return path
