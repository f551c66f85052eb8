-- Changes of jobs beside their outcomes (finish_with).
IF TYPE_ID(N'[$(schema)].[change_list]') IS NULL
    CREATE TYPE [$(schema)].[change_list] AS TABLE
    (
        job_id bigint        NOT NULL PRIMARY KEY CLUSTERED,
        -- outcome 2: the queue that the job goes to, instead of being dead
        queue  nvarchar(129) COLLATE Latin1_General_100_BIN2 NULL,
        -- the job's needs from now on; NULL: unchanged
        needs  nvarchar(1001) COLLATE Latin1_General_100_BIN2 NULL
    );
GO
