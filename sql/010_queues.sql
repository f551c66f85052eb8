-- A queue with its settings. Names are compared by code point (BIN2), because in the usual collations all emoji are
-- equal.
IF OBJECT_ID(N'[$(schema)].[queues]', N'U') IS NULL
    CREATE TABLE [$(schema)].[queues]
    (
        queue_id     int           NOT NULL IDENTITY (1, 1),
        name         nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        claim_order  varchar(4)    NOT NULL,
        completion   varchar(8)    NOT NULL,
        delivery     varchar(13)   NOT NULL,
        max_attempts int           NOT NULL,
        keep_done_s  int           NULL,  -- how long done jobs (annotate, archive) are kept; NULL: for ever
        keep_dead_s  int           NULL,  -- how long dead jobs are kept; NULL: for ever
        -- 0: not paused; 1: pause, 2: pause_all, 4: the database is a copy (check_home), or a sum of these
        paused       tinyint       NOT NULL CONSTRAINT queues_paused DEFAULT 0,
        created_at   datetime2(3)  NOT NULL CONSTRAINT queues_created_at DEFAULT SYSUTCDATETIME(),
        -- the schema and name of a procedure, each up to 128 characters in brackets with ] doubled; NULL: none
        sink         nvarchar(517) NULL,
        -- the name of the queue that dead jobs go to; NULL: they stay
        dead_queue   nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
        -- how many jobs of a group may have a turn at the same time
        group_limit  int           NOT NULL CONSTRAINT queues_group_limit DEFAULT 1,
        -- 1: a retried job passes its turn on (groups)
        retry_passes bit           NOT NULL CONSTRAINT queues_retry_passes DEFAULT 0,
        -- 1: a dead job keeps its turn (groups)
        halt_groups  bit           NOT NULL CONSTRAINT queues_halt_groups DEFAULT 0,
        max_running  int           NULL,  -- NULL: no limit
        rate_jobs    int           NULL,  -- how many jobs may be claimed in rate_ms; NULL: no limit
        rate_ms      bigint        NULL,
        age_after_ms bigint        NULL,  -- a ready job rises by one priority each so often (claim_aged); NULL: never
        -- 1: groups share the queue, and take no turns (claim_fair)
        fair         bit           NOT NULL CONSTRAINT queues_fair DEFAULT 0,
        max_depth    int           NULL,  -- how many unfinished jobs enqueue allows; NULL: no limit (room)
        -- when max_running was last changed
        limited_at   datetime2(3)  NOT NULL CONSTRAINT queues_limited_at DEFAULT '00010101',
        -- 1: claim_places lists all claimed jobs
        places_known bit           NOT NULL CONSTRAINT queues_places_known DEFAULT 0,
        CONSTRAINT queues_pk PRIMARY KEY CLUSTERED (queue_id),
        CONSTRAINT queues_name UNIQUE NONCLUSTERED (name)
    );
GO
