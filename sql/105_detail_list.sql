-- Rare attributes of the jobs of an enqueue_list. Only jobs that have such attributes get a row.
IF TYPE_ID(N'[$(schema)].[detail_list]') IS NULL
    CREATE TYPE [$(schema)].[detail_list] AS TABLE
    (
        ordinal         int            NOT NULL PRIMARY KEY CLUSTERED,  -- of the job in enqueue_list
        time_limit_ms   bigint         NULL,
        headers         nvarchar(1301) COLLATE Latin1_General_100_BIN2 NULL,
        group_key       nvarchar(129)  COLLATE Latin1_General_100_BIN2 NULL,
        batch_id        bigint         NULL,
        needs           nvarchar(1001) COLLATE Latin1_General_100_BIN2 NULL,
        start_by        datetime2(3)   NULL,
        start_within_ms bigint         NULL
    );
GO
