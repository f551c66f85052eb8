-- What a queue's sink gets: the jobs that are done in one acknowledgement. A sink is a procedure of the user's with one
-- parameter of this type.
IF TYPE_ID(N'[$(schema)].[sink_list]') IS NULL
    CREATE TYPE [$(schema)].[sink_list] AS TABLE
    (
        job_id         bigint           NOT NULL PRIMARY KEY CLUSTERED,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        fence          int              NOT NULL,
        output         varbinary(max)   NULL
    );
GO
