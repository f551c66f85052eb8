-- A worker that claims from one queue, with its lease. The row of a lost or stopped worker stays for a day, because a
-- claim in progress can still commit, and reap must then find its jobs.
IF OBJECT_ID(N'[$(schema)].[workers]', N'U') IS NULL
    CREATE TABLE [$(schema)].[workers]
    (
        worker_id     uniqueidentifier NOT NULL,  -- new at each start of the process
        queue_id      int              NOT NULL,
        name          nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,  -- the same at each start
        login         nvarchar(128)    COLLATE Latin1_General_100_BIN2 NULL,      -- the login that registered it
        lease_ms      int              NOT NULL,
        registered_at datetime2(3)     NOT NULL,
        lease_until   datetime2(3)     NOT NULL,
        lost_at       datetime2(3)     NULL,
        -- what it has for jobs, a JSON object of numbers like the needs of jobs
        resources     varchar(1000)    COLLATE Latin1_General_100_BIN2 NULL,
        -- how often tend has renewed the lease since the last heartbeat
        unserved      tinyint          NOT NULL CONSTRAINT workers_unserved DEFAULT 0,
        reported_at   datetime2(3)     NULL,  -- the time of the report below; NULL: none yet
        running       int              NULL,
        done          bigint           NULL,
        failed        bigint           NULL,
        done_per_s    real             NULL,
        failed_per_s  real             NULL,
        limited_by    varchar(16)      COLLATE Latin1_General_100_BIN2 NULL,
        in_use        varchar(1000)    COLLATE Latin1_General_100_BIN2 NULL,      -- of its resources
        report_no     bigint           NULL,
        dead          bigint           NULL,
        times         varchar(1400)    COLLATE Latin1_General_100_BIN2 NULL,
        noted_done    bigint           NULL,  -- the part of done that is in history
        noted_failed  bigint           NULL,
        noted_dead    bigint           NULL,
        noted_times   varchar(1400)    COLLATE Latin1_General_100_BIN2 NULL,
        -- what an operator has asked of it (worker_wish); its heartbeats return this
        quiet         bit              NOT NULL CONSTRAINT workers_quiet DEFAULT 0,
        stops         bit              NOT NULL CONSTRAINT workers_stops DEFAULT 0,
        threads       int              NULL,  -- NULL: as configured
        debug_until   datetime2(3)     NULL,
        wished_at     datetime2(3)     NULL,
        CONSTRAINT workers_pk PRIMARY KEY CLUSTERED (worker_id)
    );
GO
