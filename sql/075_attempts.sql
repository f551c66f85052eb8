-- The newest 20 failed attempts of each job (note_attempts), including attempts of lost workers. They are deleted with
-- their job. A session uses a job's attempts only while it has locked the job's row or after deleting it, so no session
-- waits for these rows.
IF OBJECT_ID(N'[$(schema)].[attempts]', N'U') IS NULL
    CREATE TABLE [$(schema)].[attempts]
    (
        job_id     bigint           NOT NULL,
        -- tells attempts apart even after a requeue, which resets the attempt
        fence      int              NOT NULL,
        queue_id   int              NOT NULL,
        attempt    int              NOT NULL,
        worker_id  uniqueidentifier NOT NULL,
        -- the worker's name, stored here because the worker's row stays for a day only
        worker     nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        failed_at  datetime2(3)     NOT NULL,
        run_us     bigint           NULL,      -- NULL: its worker was lost
        cpu_us     bigint           NULL,
        peak_bytes bigint           NULL,
        error      nvarchar(4000)   NULL,
        CONSTRAINT attempts_pk PRIMARY KEY CLUSTERED (job_id, fence)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
