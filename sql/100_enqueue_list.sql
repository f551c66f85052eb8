-- Jobs to enqueue, each with a payload or a text (nvarchar, for producers in T-SQL).
IF TYPE_ID(N'[$(schema)].[enqueue_list]') IS NULL
    CREATE TYPE [$(schema)].[enqueue_list] AS TABLE
    (
        ordinal        int              NOT NULL PRIMARY KEY CLUSTERED,  -- the order of the ids, chosen by the caller
        payload        varbinary(max)   NULL,
        text           nvarchar(max)    NULL,
        priority       smallint         NULL,  -- NULL: 0
        delay_ms       bigint           NULL,  -- from now, by SQL Server's clock
        due_at         datetime2(3)     NULL,  -- or a point in time, UTC
        max_attempts   int              NULL,  -- NULL: as for the queue
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        -- varchar, so characters outside its code page are converted before enqueue_batch can reject them
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL
    );
GO
