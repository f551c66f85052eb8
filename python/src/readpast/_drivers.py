"""Drivers for SQL Server, and how each connects by an ADO.NET connection string."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

from .exceptions import Error

#: A DB-API connection.
Connection = Any

#: How long a login may take by default, in seconds.
LOGIN_TIMEOUT_S = 15

#: Synonyms of keys, in lower case without spaces.
KEYS = {
    "addr": "server",
    "address": "server",
    "networkaddress": "server",
    "datasource": "server",
    "initialcatalog": "database",
    "uid": "userid",
    "user": "userid",
    "username": "userid",
    "pwd": "password",
    "trusted_connection": "integratedsecurity",
    "applicationname": "app",
    "connectiontimeout": "connecttimeout",
    "timeout": "connecttimeout",
}

#: Keys of Microsoft.Data.SqlClient that concern only its own pool, threads and types. The connection strings that
#: Azure shows have some of them. The program ignores the same (src/config/connection_string/known_keys.rs).
IGNORED = frozenset(
    (
        "async", "asynchronousprocessing", "columnencryptionsetting", "connectionlifetime", "connectionreset",
        "connectretrycount", "connectretryinterval", "enlist", "loadbalancetimeout", "maxpoolsize", "minpoolsize",
        "multipleactiveresultsets", "persistsecurityinfo", "poolblockingperiod", "pooling", "replication",
        "transactionbinding", "typesystemversion",
    )
)  # fmt: skip


#: The values of keys that are on or off. `Encrypt=strict` is neither.
ON = ("true", "yes", "sspi", "mandatory")
OFF = ("false", "no", "optional", "strict", "danger_plaintext")


class Unsuitable(Exception):
    """The driver cannot connect by this connection string."""


class Settings:
    """A connection string's keys."""

    def __init__(self, text: str) -> None:
        self.values = parse(text)
        if "server" not in self.values:
            raise Error("the connection string has no Server")
        address = re.fullmatch(r"(?:tcp:)?([^,\\]+)(?:\\([^,]+))?(?:,\s*(\d+))?", self.values["server"].strip())
        if address is None:
            raise Error(
                f"the connection string's Server is {self.values['server']!r}; write host, host,port or host\\instance"
            )
        host = address[1].strip()
        self.host = "localhost" if host in (".", "(local)") else host
        self.instance: str | None = address[2]
        self.port = int(address[3]) if address[3] else None

        timeout = self.values.get("connecttimeout", str(LOGIN_TIMEOUT_S))
        if not re.fullmatch(r"\d{1,6}", timeout):
            raise Error("the connection string's Connect Timeout must be a number of seconds")
        self.login_timeout_s = int(timeout)

    @property
    def host_and_instance(self) -> str:
        return self.host if self.instance is None else f"{self.host}\\{self.instance}"

    def get(self, name: str, default: str = "") -> str:
        return self.values.get(name, default)

    def is_on(self, name: str, default: bool = False) -> bool:
        value = self.get(name, str(default)).lower()
        if value not in (*ON, *OFF):
            # Not shown: it may be part of a password.
            raise Error(f"the connection string's {name} must be true or false")
        return value in ON

    def only(self, *known: str) -> None:
        """Raises Unsuitable if there are other keys."""
        for name in self.values:
            if name not in known and name not in IGNORED and name != "connecttimeout":
                raise Unsuitable(f"it has no key for {name}")


def parse(text: str) -> dict[str, str]:
    """The keys in lower case without spaces, with their values.

    Raises:
        Error: if the text is not `Key=Value;…`. The message contains none of its values.
    """
    values: dict[str, str] = {}
    pattern = re.compile(r"\s*([^=;]+?)\s*=\s*(?:\"((?:[^\"]|\"\")*)\"|'((?:[^']|'')*)'|([^;]*?))\s*(?:;|$)")
    at = 0
    while text[at:].strip(" ;\r\n\t"):
        at += len(text[at:]) - len(text[at:].lstrip(" ;\r\n\t"))
        found = pattern.match(text, at)
        if found is None:
            raise Error("the connection string must have the form Server=…;Database=…;User ID=…;Password=…")
        name = found[1].lower().replace(" ", "")
        double, single, plain = found[2], found[3], found[4]
        value = (
            double.replace('""', '"')
            if double is not None
            else single.replace("''", "'")
            if single is not None
            else plain
        )
        values[KEYS.get(name, name)] = value
        at = found.end()
    return values


class Driver(NamedTuple):
    #: Its module.
    module: str
    #: Its name in the package index.
    name: str
    #: The placeholder of a parameter in a statement.
    mark: str
    connect: Callable[[Any, Settings], Connection]


def _odbc_keys(settings: Settings) -> str:
    settings.only(
        "server", "database", "userid", "password", "integratedsecurity", "encrypt", "trustservercertificate",
        "hostnameincertificate", "multisubnetfailover", "app",
    )  # fmt: skip
    strict = settings.get("encrypt").lower() == "strict"
    pairs = {
        "Server": settings.get("server"),
        "Database": settings.get("database"),
        "UID": settings.get("userid"),
        "PWD": settings.get("password"),
        "Trusted_Connection": "yes" if settings.is_on("integratedsecurity") else "",
        "Encrypt": "strict" if strict else "yes" if settings.is_on("encrypt", True) else "no",
        "TrustServerCertificate": "yes" if settings.is_on("trustservercertificate") else "no",
        "HostNameInCertificate": settings.get("hostnameincertificate"),
        "MultiSubnetFailover": "yes" if settings.is_on("multisubnetfailover") else "",
        "APP": settings.get("app"),
    }
    return "".join("{}={{{}}};".format(name, value.replace("}", "}}")) for name, value in pairs.items() if value)


def _by_mssql_python(module: Any, settings: Settings) -> Connection:
    try:
        return module.connect(_odbc_keys(settings), autocommit=True, timeout=settings.login_timeout_s)
    except module.Error as error:
        if "Failed to load the driver" in str(error):
            raise Unsuitable("a library of its ODBC driver is missing") from error
        raise


def _by_pyodbc(module: Any, settings: Settings) -> Connection:
    installed = [re.fullmatch(r"ODBC Driver (\d+) for SQL Server", name) for name in module.drivers()]
    newest = max((int(found[1]) for found in installed if found), default=None)
    if newest is None:
        raise Unsuitable("no ODBC Driver for SQL Server is installed")
    driver = f"Driver={{ODBC Driver {newest} for SQL Server}};"
    return module.connect(driver + _odbc_keys(settings), autocommit=True, timeout=settings.login_timeout_s)


def _by_pytds(module: Any, settings: Settings) -> Connection:
    settings.only(
        "server",
        "database",
        "userid",
        "password",
        "encrypt",
        "trustservercertificate",
        "trustservercertificateca",
        "app",
    )
    trust: dict[str, Any] = {}
    if settings.is_on("encrypt", True):
        if settings.is_on("trustservercertificate"):
            raise Unsuitable("it always checks the server's certificate")
        try:
            importlib.import_module("OpenSSL.SSL")
        except Exception as error:
            # Not only ImportError: its version may not suit that of cryptography.
            raise Unsuitable("it needs pyOpenSSL to encrypt") from error
        import ssl  # not above: it would take a good part of the time in which a worker's program starts

        authority = settings.get("trustservercertificateca") or ssl.get_default_verify_paths().cafile
        if authority is None:
            raise Unsuitable("it needs TrustServerCertificateCA")
        trust = {"cafile": authority, "validate_host": True}
    elif settings.get("encrypt").lower() == "strict":
        raise Unsuitable("it does not speak TDS 8.0")
    return module.connect(
        settings.host_and_instance, settings.get("database"), settings.get("userid"), settings.get("password"),
        port=settings.port, login_timeout=settings.login_timeout_s, appname=settings.get("app") or None,
        autocommit=True, **trust,
    )  # fmt: skip


def _by_pymssql(module: Any, settings: Settings) -> Connection:
    settings.only("server", "database", "userid", "password", "encrypt", "trustservercertificate", "app")
    if settings.get("encrypt").lower() == "strict":
        raise Unsuitable("it does not speak TDS 8.0")
    encrypts = settings.is_on("encrypt", True)
    if encrypts and not settings.is_on("trustservercertificate"):
        raise Unsuitable("it does not check the server's certificate")
    port = {} if settings.port is None else {"port": str(settings.port)}
    return module.connect(
        settings.host_and_instance, settings.get("userid"), settings.get("password"), settings.get("database"),
        login_timeout=settings.login_timeout_s, appname=settings.get("app") or None, autocommit=True,
        encryption="require" if encrypts else "request", **port,
    )  # fmt: skip


#: In the order in which they are tried: those on Microsoft's ODBC driver first.
DRIVERS = (
    Driver("mssql_python", "mssql-python", "?", _by_mssql_python),
    Driver("pyodbc", "pyodbc", "?", _by_pyodbc),
    Driver("pytds", "python-tds", "%s", _by_pytds),
    Driver("pymssql", "pymssql", "%s", _by_pymssql),
)


def connect(url: str) -> Connection | None:
    """Connects with the first driver that is installed and suitable; None if there is none.

    Raises:
        Error: if the connection string is not valid, or the driver cannot connect.
    """
    settings = Settings(url)
    for driver in DRIVERS:
        try:
            return driver.connect(importlib.import_module(driver.module), settings)
        except (ImportError, Unsuitable):
            continue
        except Exception as error:
            raise Error(f"{driver.name} cannot connect to SQL Server: {message_of(error)}") from error
    return None


def mark_of(connection: Connection) -> str:
    """The placeholder of a parameter in this connection's statements.

    Raises:
        TypeError: if it is not a connection of a known driver.
    """
    module = _module_of(connection)
    for driver in DRIVERS:
        if driver.module == module:
            return driver.mark
    style = getattr(sys.modules.get(module), "paramstyle", None)
    if style not in ("qmark", "format", "pyformat"):
        raise TypeError(
            f"the connection's type is {type(connection).__name__}, which is not a driver's; with SQLAlchemy, pass "
            "session.connection().connection"
        )
    return "?" if style == "qmark" else "%s"


def rows_of(connection: Connection, statement: str, parameters: Sequence[object]) -> list[list[tuple[Any, ...]]]:
    """Executes a statement. Returns the rows of each result set."""
    cursor = connection.cursor()
    try:
        cursor.execute(statement, tuple(parameters))
        sets = []
        while True:
            if cursor.description:
                sets.append([tuple(row) for row in cursor.fetchall()])
            if not cursor.nextset():
                return sets
    finally:
        cursor.close()


def binary(connection: Connection, data: bytes) -> object:
    """Bytes as a parameter. Some drivers treat `bytes` as text."""
    module = _module_of(connection)
    return importlib.import_module(module).Binary(data) if module in ("pytds", "pymssql") else data


def _module_of(connection: Connection) -> str:
    return type(connection).__module__.split(".")[0].lstrip("_")


def number_of(error: BaseException) -> int | None:
    """SQL Server's number of a driver's exception; None if there is none. mssql-python does not report it."""
    numbers = [getattr(error, "number", None), *error.args]  # python-tds, pymssql
    found = re.search(r"\((\d+)\) \(SQL", str(error))  # pyodbc
    return next((number for number in numbers if isinstance(number, int)), int(found[1]) if found else None)


def message_of(error: BaseException) -> str:
    """The message of a driver's exception."""
    arguments = error.args
    if len(arguments) == 1 and isinstance(arguments[0], tuple):  # pymssql, when it connects
        arguments = arguments[0]
    # pyodbc has the state before the message, pymssql the number.
    texts = [text.decode(errors="replace") if isinstance(text, bytes) else text for text in arguments]
    message = next((text for text in reversed(texts) if isinstance(text, str)), str(error))
    # DB-Library appends messages of its own.
    return message.partition("DB-Lib error message")[0].strip() or message or type(error).__name__
