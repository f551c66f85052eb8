-- What running jobs have noted about themselves: a checkpoint, with which the next attempt goes on, and how far they
-- are, for people. A row only for a job that has noted something; it stays until expire finds that the job is gone or
-- done.
IF OBJECT_ID(N'[$(schema)].[progress]', N'U') IS NULL
    CREATE TABLE [$(schema)].[progress]
    (
        job_id     bigint         NOT NULL,
        queue_id   int            NOT NULL,
        fence      int            NOT NULL,  -- of the claim under which it was noted
        noted_at   datetime2(3)   NOT NULL,
        fraction   real           NULL,      -- 0 to 1
        text       nvarchar(400)  NULL,
        [checkpoint] varbinary(max) NULL,
        CONSTRAINT progress_pk PRIMARY KEY CLUSTERED (job_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        -- For expire, which need not read the checkpoints.
        INDEX progress_queue NONCLUSTERED (queue_id, job_id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
