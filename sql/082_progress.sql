-- Reports of running jobs: a checkpoint for the next attempt, progress and the end of the log for people. A row stays
-- until expire finds that its job is gone or done.
IF OBJECT_ID(N'[$(schema)].[progress]', N'U') IS NULL
    CREATE TABLE [$(schema)].[progress]
    (
        job_id     bigint         NOT NULL,
        queue_id   int            NOT NULL,
        fence      int            NOT NULL,  -- the fence of the claim that reported it
        noted_at   datetime2(3)   NOT NULL,
        fraction   real           NULL,      -- 0 to 1
        text       nvarchar(400)  NULL,
        [checkpoint] varbinary(max) NULL,
        log_end    bigint         NULL,      -- of the attempt with this fence: see logs
        log        nvarchar(max)  NULL,
        CONSTRAINT progress_pk PRIMARY KEY CLUSTERED (job_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        -- For expire: without the checkpoints.
        INDEX progress_queue NONCLUSTERED (queue_id, job_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
