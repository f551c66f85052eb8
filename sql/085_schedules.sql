-- A schedule: at which times a job comes into the queue by itself. T-SQL cannot read a cron expression: the worker that
-- has the duties of the queue works out the times and calls fire_schedule for each.
-- Rows are only a few. Those who read and change them in the workers' name skip what is locked, so that nobody's
-- transaction stops the duties; hence no page locks.
IF OBJECT_ID(N'[$(schema)].[schedules]', N'U') IS NULL
    CREATE TABLE [$(schema)].[schedules]
    (
        queue_id       int              NOT NULL,
        name           nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        cron           varchar(256)     COLLATE Latin1_General_100_BIN2 NOT NULL,
        -- a name of the IANA database, such as Europe/Berlin
        time_zone      varchar(64)      COLLATE Latin1_General_100_BIN2 NOT NULL,
        make_up        int              NOT NULL,  -- of the times that were missed, the last so many are made up for
        jitter_ms      int              NOT NULL,  -- each job starts up to so much later than its time, at random
        -- The job, as enqueue takes it.
        priority       smallint         NOT NULL,
        max_attempts   int              NULL,
        time_limit_ms  int              NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        -- NULL: each job has a key of its own, from name and time
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        headers        nvarchar(1300)   COLLATE Latin1_General_100_BIN2 NULL,
        group_key      nvarchar(128)    COLLATE Latin1_General_100_BIN2 NULL,
        payload_utf16  bit              NOT NULL,
        payload        varbinary(max)   NOT NULL,
        -- Where it stands.
        paused         bit              NOT NULL CONSTRAINT schedules_paused DEFAULT 0,
        -- grows with each change: what was read before fires none
        revision       int              NOT NULL CONSTRAINT schedules_revision DEFAULT 1,
        -- the next time; when it was just set or resumed: since when times count
        next_at        datetime2(3)     NOT NULL,
        -- when a worker looks at it next: next_at, or ten seconds after it could not be fired
        look_at        datetime2(3)     NOT NULL,
        -- what the clock said when these two were worked out; in the future: it was set back since
        looked_at      datetime2(3)     NOT NULL,
        last_at        datetime2(3)     NULL,      -- the last time that was fired
        error          nvarchar(2048)   NULL,      -- why it could not be fired the last time that a worker looked
        CONSTRAINT schedules_pk PRIMARY KEY CLUSTERED (queue_id, name)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX schedules_due NONCLUSTERED (queue_id, look_at, looked_at)
        WHERE paused = 0 WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
