-- The newest 20 failed attempts of each job (note_attempts), including those of lost workers. They are deleted with
-- their job. A session touches a job's rows only while it holds the job's row or after deleting it, so these rows add
-- no waits.
IF OBJECT_ID(N'[$(schema)].[attempts]', N'U') IS NULL
    CREATE TABLE [$(schema)].[attempts]
    (
        job_id    bigint           NOT NULL,
        -- distinguishes attempts even if a requeue has reset the count
        fence     int              NOT NULL,
        queue_id  int              NOT NULL,
        attempt   int              NOT NULL,
        worker_id uniqueidentifier NOT NULL,
        -- the worker's name: its own row stays for a day only
        worker    nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        failed_at datetime2(3)     NOT NULL,
        run_us    bigint           NULL,      -- NULL: its worker was lost
        error     nvarchar(4000)   NULL,
        CONSTRAINT attempts_pk PRIMARY KEY CLUSTERED (job_id, fence)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
