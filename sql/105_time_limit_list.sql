-- The time limits of jobs to enqueue, beside the enqueue_list that has the jobs: only of those that have one of their own.
IF TYPE_ID(N'[$(schema)].[time_limit_list]') IS NULL
    CREATE TYPE [$(schema)].[time_limit_list] AS TABLE
    (
        ordinal       int    NOT NULL PRIMARY KEY CLUSTERED,  -- the job's
        time_limit_ms bigint NOT NULL
    );
GO
