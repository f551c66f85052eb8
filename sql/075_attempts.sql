-- The failed attempts of jobs, the newest 20 of each (note_attempts): retried and dead ones, and those that ended with
-- their worker. Only failures write here. They go with their job: when it is purged or expires, and when it is done
-- where the queue deletes done jobs. Rows of a job are only touched by who holds the job's row in jobs or has just
-- deleted it, so that nobody waits here who does not wait there.
IF OBJECT_ID(N'[$(schema)].[attempts]', N'U') IS NULL
    CREATE TABLE [$(schema)].[attempts]
    (
        job_id    bigint           NOT NULL,
        -- that it ran under: tells the attempts apart, also where a requeue has them counted from 1 again
        fence     int              NOT NULL,
        queue_id  int              NOT NULL,
        attempt   int              NOT NULL,
        worker_id uniqueidentifier NOT NULL,
        -- its name: the worker's own row stays for a day only
        worker    nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        failed_at datetime2(3)     NOT NULL,
        run_us    bigint           NULL,      -- NULL: its worker was lost
        error     nvarchar(4000)   NULL,
        CONSTRAINT attempts_pk PRIMARY KEY CLUSTERED (job_id, fence)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
