-- Follow-ups: jobs to enqueue in the transaction that finishes the job job_id as done (finish_with).
IF TYPE_ID(N'[$(schema)].[follow_up_list]') IS NULL
    CREATE TYPE [$(schema)].[follow_up_list] AS TABLE
    (
        -- the order of the ids within a queue, chosen by the caller
        ordinal        int              NOT NULL PRIMARY KEY CLUSTERED,
        job_id         bigint           NOT NULL,  -- the job that it follows
        queue          nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        payload        varbinary(max)   NOT NULL,
        priority       smallint         NULL,  -- NULL: 0
        delay_ms       bigint           NULL,  -- from now, by SQL Server's clock
        due_at         datetime2(3)     NULL,  -- or a point in time, UTC
        max_attempts   int              NULL,  -- NULL: as for the queue
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        time_limit_ms  bigint           NULL,
        headers        nvarchar(1301)   COLLATE Latin1_General_100_BIN2 NULL,
        group_key      nvarchar(129)    COLLATE Latin1_General_100_BIN2 NULL,
        batch_id       bigint           NULL,
        needs          nvarchar(1001)   COLLATE Latin1_General_100_BIN2 NULL,
        start_by        datetime2(3)    NULL,
        start_within_ms bigint          NULL
    );
GO
