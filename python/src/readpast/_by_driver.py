"""Enqueues through a DB-API connection, with the procedures of the schema."""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._drivers import Connection, binary, mark_of, rows_of
from ._new_job import Enqueued, NewJob
from .exceptions import InvalidJob, QueueFull, UnknownQueue

#: What one call takes at most. SQL Server allows 2,100 parameters, and its time to plan a statement grows with the rows.
ROWS_PER_CALL = 500
PARAMETERS_PER_CALL = 2_000
BYTES_PER_CALL = 16 << 20

#: Columns of the table types `enqueue_list` and `detail_list` of the schema.
OF_ENQUEUE_LIST = ("priority", "delay_ms", "due_at", "max_attempts", "dedup_key", "correlation_id", "kind")
OF_DETAIL_LIST = ("time_limit_ms", "headers", "group_key", "batch_id", "needs", "start_by", "start_within_ms")

#: Error numbers of the procedures.
UNKNOWN_QUEUE = 58001
QUEUE_FULL = 58023

Setting = Union[int, str]
End = Tuple[str, Optional[str], Optional[bytes]]


class Session:
    """The calls of one queue on a connection. It neither begins nor ends a transaction."""

    def __init__(self, connection: Connection, queue: str, schema: str) -> None:
        self.connection = connection
        self.queue = queue
        self.mark = mark_of(connection)
        quoted = "[" + schema.replace("]", "]]") + "]"
        self.schema = quoted.replace("%", "%%") if self.mark == "%s" else quoted

    def enqueue(self, job: NewJob) -> Enqueued:
        settings = job.checked().settings()
        parameters: List[object] = [self.queue, self._binary(job)]
        arguments = [f"@queue = {self.mark}", f"@payload = {self.mark}"]
        for name, value in settings.items():
            arguments.append(f"@{name} = {self._value(value, parameters)}")
        before = ""
        if job.after:
            before = f"DECLARE @after {self.schema}.[id_list]; {_ids('@after', job.after)} "
            arguments += ["@after = @after", f"@on_dead = '{job.on_dead}'"]
        sets = rows_of(
            self.connection,
            f"DECLARE @status int, @refused nvarchar(2048), @id bigint, @duplicate bit; {before}"
            f"EXEC @status = {self.schema}.[enqueue] {', '.join(arguments)}, @on_bad = 'status', "
            "@refused = @refused OUTPUT, @job_id = @id OUTPUT, @duplicate = @duplicate OUTPUT; "
            "SELECT @status, @refused, @id, @duplicate",
            parameters,
        )
        status, refused, job_id, duplicate = sets[-1][0]
        self._check(status, refused)
        return Enqueued(int(job_id), bool(duplicate))

    def enqueue_list(self, jobs: Sequence[NewJob]) -> List[Enqueued]:
        """Enqueues one of the `parts`, in one call."""
        parameters: List[object] = []
        rows: List[Dict[str, str]] = []
        details: List[Dict[str, str]] = []
        edges: List[str] = []
        settings = [job.settings() for job in jobs]
        # The parameters are in the order in which they occur in the statement.
        for ordinal, (job, values) in enumerate(zip(jobs, settings)):
            parameters.append(self._binary(job))
            row = {"ordinal": str(ordinal), "payload": self.mark}
            rows.append({**row, **self._values(OF_ENQUEUE_LIST, values, parameters)})
        for ordinal, values in enumerate(settings):
            detail = self._values(OF_DETAIL_LIST, values, parameters)
            if detail:
                details.append({"ordinal": str(ordinal), **detail})
        for ordinal, job in enumerate(jobs):
            edges += [f"({ordinal}, {place}, {int(parent)}, '{job.on_dead}')" for place, parent in enumerate(job.after)]
        statement = f"DECLARE @jobs {self.schema}.[enqueue_list], @status int, @refused nvarchar(2048)"
        arguments = ""
        if details:
            statement += f", @details {self.schema}.[detail_list]"
            arguments += ", @details = @details"
        if edges:
            statement += f", @edges {self.schema}.[edge_list]"
            arguments += ", @edges = @edges"
        statement += "; " + _insert("@jobs", ("ordinal", "payload", *OF_ENQUEUE_LIST), rows)
        if details:
            statement += _insert("@details", ("ordinal", *OF_DETAIL_LIST), details)
        for begin in range(0, len(edges), 1000):
            values_of = ", ".join(edges[begin : begin + 1000])
            statement += f"INSERT @edges (ordinal, place, parent_id, on_dead) VALUES {values_of}; "
        sets = rows_of(
            self.connection,
            f"{statement}EXEC @status = {self.schema}.[enqueue_batch] @queue = {self.mark}, @jobs = @jobs{arguments}, "
            "@on_bad = 'status', @refused = @refused OUTPUT; SELECT @status, @refused",
            [*parameters, self.queue],
        )
        status, refused = sets[-1][0]
        self._check(status, refused)
        return [Enqueued(int(job_id), bool(duplicate)) for _, job_id, duplicate, _ in sorted(sets[0])]

    def end_of(self, job_id: int) -> Optional[End]:
        """A finished job's state, error and output; None if it has not finished."""
        sets = rows_of(
            self.connection,
            f"DECLARE @jobs {self.schema}.[id_list]; {_ids('@jobs', [job_id])} "
            f"EXEC {self.schema}.[outcomes] @queue = {self.mark}, @jobs = @jobs",
            [self.queue],
        )
        for rows in sets:
            for _, state, error, output in rows:
                return str(state), error, None if output is None else bytes(output)
        return None

    def _binary(self, job: NewJob) -> object:
        return binary(self.connection, bytes(job.data()))

    def _value(self, value: Setting, parameters: List[object]) -> str:
        """A value in a statement: a number as it is, text as a parameter."""
        if isinstance(value, int):
            return str(value)
        parameters.append(value)
        return self.mark

    def _values(
        self, columns: Sequence[str], settings: Mapping[str, Setting], parameters: List[object]
    ) -> Dict[str, str]:
        return {name: self._value(settings[name], parameters) for name in columns if name in settings}

    def _check(self, status: int, refused: Optional[str]) -> None:
        if status == UNKNOWN_QUEUE:
            raise UnknownQueue(refused)
        if status == QUEUE_FULL:
            raise QueueFull(refused)
        if status:
            raise InvalidJob(refused)


def parts(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """The jobs of each call of `enqueue_list`."""
    begin = parameters = size = 0
    for end, job in enumerate(jobs):
        own = 1 + sum(isinstance(value, str) for value in job.checked().settings().values())
        length = len(job.data())
        if end > begin and (
            end - begin == ROWS_PER_CALL
            or parameters + own > PARAMETERS_PER_CALL
            or size + length > BYTES_PER_CALL
        ):
            yield jobs[begin:end]
            begin, parameters, size = end, 0, 0
        parameters += own
        size += length
    if begin < len(jobs):
        yield jobs[begin:]


def _insert(table: str, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str:
    """A statement for rows of which each has some of the columns."""
    names = [name for name in columns if any(name in row for row in rows)]
    values = ", ".join("(" + ", ".join(row.get(name, "NULL") for name in names) + ")" for row in rows)
    return f"INSERT {table} ({', '.join(names)}) VALUES {values}; "


def _ids(table: str, ids: Sequence[int]) -> str:
    # VALUES takes up to 1,000 rows.
    distinct = sorted({int(job_id) for job_id in ids})
    return "".join(
        f"INSERT {table} (job_id) VALUES {', '.join(f'({job_id})' for job_id in distinct[begin : begin + 1000])};"
        for begin in range(0, len(distinct), 1000)
    )
