-- What became of each queue, minute by minute, for charts. note_history writes a row for each minute in which the depth
-- was sampled, which a worker does all the time; so there are gaps where no worker ran. Of what is older than a day,
-- thin_history makes one row of ten minutes, for 90 days.
IF OBJECT_ID(N'[$(schema)].[history]', N'U') IS NULL
    CREATE TABLE [$(schema)].[history]
    (
        queue_id        int           NOT NULL,
        at              datetime2(0)  NOT NULL,  -- where it begins, a whole minute
        minutes         tinyint       NOT NULL,  -- how long it is: 1 to 10
        -- The depth as it was last sampled in this time; with ten minutes, the greatest of each.
        ready           bigint        NOT NULL,
        scheduled       bigint        NOT NULL,
        waiting         bigint        NOT NULL,
        claimed         bigint        NOT NULL,
        dead            bigint        NOT NULL,
        cancelled       bigint        NOT NULL,
        workers         bigint        NOT NULL,
        oldest_ready_ms bigint        NULL,      -- NULL: nothing was ready
        -- What the workers said that they did, until it was written: about in this time.
        done            bigint        NOT NULL,
        failed          bigint        NOT NULL,  -- attempts; the job was retried or is dead
        died            bigint        NOT NULL,  -- jobs that were dead after such an attempt
        times           varchar(1400) COLLATE Latin1_General_100_BIN2 NULL,  -- see heartbeat; NULL: nothing ran
        CONSTRAINT history_pk PRIMARY KEY CLUSTERED (queue_id, at)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        -- What is to be thinned: a day's rows at the most.
        INDEX history_minutes NONCLUSTERED (queue_id, at)
            WHERE minutes < 10 WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
