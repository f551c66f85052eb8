-- A schedule that enqueues a job at the times of a cron expression. T-SQL cannot read cron expressions, so the elected
-- worker calculates the times and calls fire_schedule. Its calls skip locked rows, so the table has no page locks.
IF OBJECT_ID(N'[$(schema)].[schedules]', N'U') IS NULL
    CREATE TABLE [$(schema)].[schedules]
    (
        queue_id       int              NOT NULL,
        name           nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        cron           varchar(256)     COLLATE Latin1_General_100_BIN2 NOT NULL,
        -- an IANA name such as Europe/Berlin
        time_zone      varchar(64)      COLLATE Latin1_General_100_BIN2 NOT NULL,
        make_up        int              NOT NULL,  -- how many of the last missed times are made up for
        jitter_ms      int              NOT NULL,  -- the longest random delay of each job
        -- The job, as for enqueue.
        priority       smallint         NOT NULL,
        max_attempts   int              NULL,
        time_limit_ms  int              NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        -- NULL: each job's key is made of the name and the time
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        headers        nvarchar(1300)   COLLATE Latin1_General_100_BIN2 NULL,
        group_key      nvarchar(128)    COLLATE Latin1_General_100_BIN2 NULL,
        needs          varchar(1000)    COLLATE Latin1_General_100_BIN2 NULL,
        start_within_ms bigint          NULL,
        payload_utf16  bit              NOT NULL,
        payload        varbinary(max)   NOT NULL,
        -- The state of the schedule.
        paused         bit              NOT NULL CONSTRAINT schedules_paused DEFAULT 0,
        -- grows with each change, so that outdated calls fire nothing
        revision       int              NOT NULL CONSTRAINT schedules_revision DEFAULT 1,
        -- the next time; after a change or resume: the time from which to search for it
        next_at        datetime2(3)     NOT NULL,
        -- when a worker checks it next: next_at, or ten seconds after a failure
        look_at        datetime2(3)     NOT NULL,
        -- the time when these two were calculated; if it is in the future, the clock was set back
        looked_at      datetime2(3)     NOT NULL,
        last_at        datetime2(3)     NULL,      -- the last time that was fired
        last_job_id    bigint           NULL,      -- its job, or the unfinished one that had its key
        error          nvarchar(2048)   NULL,      -- why the last check could not fire it
        CONSTRAINT schedules_pk PRIMARY KEY CLUSTERED (queue_id, name)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX schedules_due NONCLUSTERED (queue_id, look_at, looked_at)
        WHERE paused = 0 WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
