-- Running jobs that somebody has asked to cancel: a word to their workers, who get it with their next heartbeat. What
-- decides about the job is jobs.cancelling; a row that nobody needs any more does no harm, and reap deletes it when it
-- is a day old.
IF OBJECT_ID(N'[$(schema)].[cancellations]', N'U') IS NULL
    CREATE TABLE [$(schema)].[cancellations]
    (
        worker_id uniqueidentifier NOT NULL,
        job_id    bigint           NOT NULL,
        fence     int              NOT NULL,
        asked_at  datetime2(3)     NOT NULL,
        CONSTRAINT cancellations_pk PRIMARY KEY CLUSTERED (worker_id, job_id, fence)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
