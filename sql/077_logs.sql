-- What ended attempts of jobs wrote (note_progress): the newest 20 of each job, deleted with it, as in attempts. The
-- same rule holds for locks: a session uses a job's logs only while it has locked the job's row or after deleting it.
IF OBJECT_ID(N'[$(schema)].[logs]', N'U') IS NULL
    CREATE TABLE [$(schema)].[logs]
    (
        job_id   bigint        NOT NULL,
        fence    int           NOT NULL,  -- of the attempt's claim
        queue_id int           NOT NULL,
        attempt  int           NOT NULL,
        noted_at datetime2(3)  NOT NULL,
        log_end  bigint        NOT NULL,  -- how many bytes of UTF-8 it had in all
        log      nvarchar(max) NOT NULL,  -- the last of them
        CONSTRAINT logs_pk PRIMARY KEY CLUSTERED (job_id, fence)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
