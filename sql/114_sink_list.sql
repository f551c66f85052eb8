-- The only parameter of a queue's sink, a user's procedure: the done jobs of one finish call.
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
