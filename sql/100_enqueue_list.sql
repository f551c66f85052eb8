-- Jobs to enqueue. Either payload or text: text is for producers in T-SQL, whose JSON is nvarchar.
IF TYPE_ID(N'[$(schema)].[enqueue_list]') IS NULL
    CREATE TYPE [$(schema)].[enqueue_list] AS TABLE
    (
        ordinal        int              NOT NULL PRIMARY KEY CLUSTERED,  -- the caller's order; jobs get their ids in it
        payload        varbinary(max)   NULL,
        text           nvarchar(max)    NULL,
        priority       smallint         NULL,  -- NULL: 0
        delay_ms       bigint           NULL,  -- from now, by SQL Server's clock
        due_at         datetime2(3)     NULL,  -- or: a point in time, UTC
        max_attempts   int              NULL,  -- NULL: the queue's
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        -- varchar: characters beyond its code page are converted before enqueue_batch can refuse them
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL
    );
GO
