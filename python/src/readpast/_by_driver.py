"""Enqueues through a DB-API connection, with the procedures of the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._drivers import Connection, binary, mark_of, rows_of
from ._new_job import End, Enqueued, Limits, Prepared
from .exceptions import Error, InvalidJob, QueueFull, UnknownQueue

#: Columns of the table types `enqueue_list` and `detail_list` of the schema.
OF_ENQUEUE_LIST = ("priority", "delay_ms", "due_at", "max_attempts", "dedup_key", "correlation_id", "kind")
OF_DETAIL_LIST = ("time_limit_ms", "headers", "group_key", "batch_id", "needs", "start_by", "start_within_ms")

#: Errors of the procedures by their numbers. Other numbers are not about a job or its queue.
ERRORS: dict[int | None, type[Error]] = {
    58001: UnknownQueue,
    58003: InvalidJob,
    58021: InvalidJob,  # its batch
    58023: QueueFull,
}


class Session:
    """The calls of one queue on a connection. It neither begins nor ends a transaction."""

    limits = Limits(rows=500, parameters=2_000, size=16 << 20)

    def __init__(self, connection: Connection, queue: str, schema: str) -> None:
        self.connection = connection
        self.queue = queue
        self.mark = mark_of(connection)
        quoted = "[" + schema.replace("]", "]]") + "]"
        self.schema = quoted.replace("%", "%%") if self.mark == "%s" else quoted

    def enqueue(self, job: Prepared) -> Enqueued:
        parameters: list[object] = [self.queue, binary(self.connection, job.payload)]
        arguments = [f"@queue = {self.mark}", f"@payload = {self.mark}"]
        for name, value in job.settings.items():
            arguments.append(f"@{name} = {self._value(value, parameters)}")
        before = ""
        if job.after:
            before = f"DECLARE @after {self.schema}.[id_list]; {_insert_ids('@after', job.after)}"
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
        _check(status, refused)
        return Enqueued(int(job_id), bool(duplicate))

    def enqueue_list(self, jobs: Sequence[Prepared]) -> list[Enqueued]:
        # Parameters are bound by position: in the order of the statement.
        parameters: list[object] = []
        rows, details, edges = [], [], []
        for ordinal, job in enumerate(jobs):
            parameters.append(binary(self.connection, job.payload))
            row = {"ordinal": str(ordinal), "payload": self.mark}
            rows.append({**row, **self._values(OF_ENQUEUE_LIST, job.settings, parameters)})
        for ordinal, job in enumerate(jobs):
            detail = self._values(OF_DETAIL_LIST, job.settings, parameters)
            if detail:
                details.append({"ordinal": str(ordinal), **detail})
            for place, parent in enumerate(job.after):
                edges.append(f"({ordinal}, {place}, {parent}, '{job.on_dead}')")
        declared = f"DECLARE @status int, @refused nvarchar(2048), @jobs {self.schema}.[enqueue_list]"
        inserts = _insert("@jobs", ("ordinal", "payload", *OF_ENQUEUE_LIST), rows)
        arguments = "@jobs = @jobs"
        if details:
            declared += f", @details {self.schema}.[detail_list]"
            inserts += _insert("@details", ("ordinal", *OF_DETAIL_LIST), details)
            arguments += ", @details = @details"
        if edges:
            declared += f", @edges {self.schema}.[edge_list]"
            inserts += _insert_values("@edges (ordinal, place, parent_id, on_dead)", edges)
            arguments += ", @edges = @edges"
        sets = rows_of(
            self.connection,
            f"{declared}; {inserts}"
            f"EXEC @status = {self.schema}.[enqueue_batch] @queue = {self.mark}, {arguments}, "
            "@on_bad = 'status', @refused = @refused OUTPUT; SELECT @status, @refused",
            [*parameters, self.queue],
        )
        status, refused = sets[-1][0]
        _check(status, refused)
        return [Enqueued(int(job_id), bool(duplicate)) for _, job_id, duplicate, _ in sorted(sets[0])]

    def end_of(self, job_id: int, timeout: float | None) -> End | None:
        """How a job has ended; None if it has not. Does not wait."""
        sets = rows_of(
            self.connection,
            f"DECLARE @jobs {self.schema}.[id_list]; {_insert_ids('@jobs', [job_id])}"
            f"EXEC {self.schema}.[outcomes] @queue = {self.mark}, @jobs = @jobs",
            [self.queue],
        )
        for rows in sets:
            for _, state, error, output in rows:
                return End(str(state), error, None if output is None else bytes(output))
        return None

    def _value(self, value: int | str, parameters: list[object]) -> str:
        """A value in a statement: a number as a literal, text as a parameter."""
        if isinstance(value, int):
            return str(value)
        parameters.append(value)
        return self.mark

    def _values(
        self, columns: Sequence[str], settings: Mapping[str, int | str], parameters: list[object]
    ) -> dict[str, str]:
        return {name: self._value(settings[name], parameters) for name in columns if name in settings}


def _check(status: int, refused: str | None) -> None:
    if status:
        raise ERRORS.get(status, InvalidJob)(refused)


def _insert(table: str, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str:
    """Inserts rows that may lack some of the columns."""
    names = [name for name in columns if any(name in row for row in rows)]
    values = ["(" + ", ".join(row.get(name, "NULL") for name in names) + ")" for row in rows]
    return _insert_values(f"{table} ({', '.join(names)})", values)


def _insert_ids(table: str, ids: Sequence[int]) -> str:
    return _insert_values(f"{table} (job_id)", [f"({job_id})" for job_id in sorted(set(ids))])


def _insert_values(target: str, values: Sequence[str]) -> str:
    # VALUES takes up to 1,000 rows.
    parts = [", ".join(values[begin : begin + 1_000]) for begin in range(0, len(values), 1_000)]
    return "".join(f"INSERT {target} VALUES {part}; " for part in parts)
