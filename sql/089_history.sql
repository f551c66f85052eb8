-- The history of each queue, for charts. There is a row for each minute with a sample (note_history). After a day,
-- thin_history merges ten minutes into one row, which is kept for 90 days.
IF OBJECT_ID(N'[$(schema)].[history]', N'U') IS NULL
    CREATE TABLE [$(schema)].[history]
    (
        queue_id        int           NOT NULL,
        at              datetime2(0)  NOT NULL,  -- the start of the row, a whole minute
        minutes         tinyint       NOT NULL,  -- the length of the row, 1 to 10
        -- The last sampled depth; for ten minutes, the maximum of each number.
        ready           bigint        NOT NULL,
        scheduled       bigint        NOT NULL,
        waiting         bigint        NOT NULL,
        claimed         bigint        NOT NULL,
        dead            bigint        NOT NULL,
        cancelled       bigint        NOT NULL,
        workers         bigint        NOT NULL,
        oldest_ready_ms bigint        NULL,      -- NULL: nothing was ready
        -- The workers' reports in about this time.
        done            bigint        NOT NULL,
        failed          bigint        NOT NULL,  -- failed attempts; the job was retried or is dead
        died            bigint        NOT NULL,  -- jobs that are dead after such an attempt
        times           varchar(1400) COLLATE Latin1_General_100_BIN2 NULL,  -- see heartbeat; NULL: nothing ran
        CONSTRAINT history_pk PRIMARY KEY CLUSTERED (queue_id, at)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        -- For thin_history: rows of one minute, which are at most a day old.
        INDEX history_minutes NONCLUSTERED (queue_id, at)
            WHERE minutes < 10 WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
