-- A batch: jobs of any queues, and a follow-up that is enqueued when all of them have finished. It has three tables, so
-- that finish calls do not wait for producers. batches has its definition. A session that adds jobs keeps a shared lock
-- on the row until its transaction ends, so that sealing waits for it. batch_additions has a row for each call that
-- adds jobs, with its part (@part of enqueue). Sealing stores the sum of the jobs as batch_counts.members. batch_counts
-- has the number of jobs by outcome. Locks are taken in the order batches, jobs, batch_counts, and within each table by
-- id.
IF OBJECT_ID(N'[$(schema)].[batches]', N'U') IS NULL
    CREATE TABLE [$(schema)].[batches]
    (
        batch_id       bigint           NOT NULL IDENTITY (1, 1),
        queue_id       int              NOT NULL,  -- the queue of the follow-up
        name           nvarchar(128)    NULL,      -- for people
        -- the batch of the follow-up, which is older, so that there are no cycles
        parent_id      bigint           NULL,
        created_at     datetime2(3)     NOT NULL,
        sealed_at      datetime2(3)     NULL,
        -- The follow-up, as for enqueue.
        priority       smallint         NOT NULL,
        max_attempts   int              NULL,
        time_limit_ms  int              NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        headers        nvarchar(1300)   COLLATE Latin1_General_100_BIN2 NULL,
        needs          varchar(1000)    COLLATE Latin1_General_100_BIN2 NULL,
        payload_utf16  bit              NOT NULL,
        payload        varbinary(max)   NULL,      -- NULL: no follow-up
        CONSTRAINT batches_pk PRIMARY KEY CLUSTERED (batch_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batches_parent NONCLUSTERED (parent_id, batch_id) WHERE parent_id IS NOT NULL
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF OBJECT_ID(N'[$(schema)].[batch_additions]', N'U') IS NULL
    CREATE TABLE [$(schema)].[batch_additions]
    (
        batch_id    bigint NOT NULL,
        addition_id bigint NOT NULL IDENTITY (1, 1),
        jobs        int    NOT NULL,
        -- the part that the call added; each part is added once; NULL: no part
        part        bigint NULL,
        CONSTRAINT batch_additions_pk PRIMARY KEY CLUSTERED (batch_id, addition_id)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batch_additions_part UNIQUE NONCLUSTERED (batch_id, part) WHERE part IS NOT NULL
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF OBJECT_ID(N'[$(schema)].[batch_counts]', N'U') IS NULL
    CREATE TABLE [$(schema)].[batch_counts]
    (
        batch_id     bigint       NOT NULL,
        queue_id     int          NOT NULL,  -- the queue of the follow-up
        members      bigint       NULL,      -- how many jobs; NULL: not sealed yet
        done         bigint       NOT NULL CONSTRAINT batch_counts_done DEFAULT 0,
        dead         bigint       NOT NULL CONSTRAINT batch_counts_dead DEFAULT 0,
        cancelled    bigint       NOT NULL CONSTRAINT batch_counts_cancelled DEFAULT 0,
        ended_at     datetime2(3) NULL,      -- when its last job finished; the row then no longer changes
        follow_up_id bigint       NULL,      -- the follow-up that was enqueued
        CONSTRAINT batch_counts_pk PRIMARY KEY CLUSTERED (batch_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batch_counts_queue NONCLUSTERED (queue_id, batch_id)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batch_counts_ended NONCLUSTERED (queue_id, ended_at, batch_id)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
