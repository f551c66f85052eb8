-- Messages to workers about the cancellation of running jobs, delivered with the next heartbeat. They are only hints:
-- jobs.cancelling decides whether a job is cancelled. reap deletes rows that are a day old.
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
