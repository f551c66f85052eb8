-- A batch: jobs that belong together, in any queues, and a follow-up that is enqueued once, when all of them have
-- ended. Jobs come in until it is sealed. Three tables, so that nobody who acknowledges jobs waits for a producer's
-- transaction: batches: what it is. Who adds jobs shares a lock on the row until the end of its transaction, so that
-- sealing waits for it. batch_additions: how many jobs came in, a row for each call, and which of the batch's parts
-- (@part of enqueue) did; when it is sealed, the sum of the jobs becomes batch_counts.members.
-- batch_counts: how its jobs have ended, added to once for each call that ends some.
-- Locks are taken in the order batches, jobs, batch_counts, and within each by number.
IF OBJECT_ID(N'[$(schema)].[batches]', N'U') IS NULL
    CREATE TABLE [$(schema)].[batches]
    (
        batch_id       bigint           NOT NULL IDENTITY (1, 1),
        queue_id       int              NOT NULL,  -- of the follow-up
        name           nvarchar(128)    NULL,      -- for people
        -- the batch that the follow-up belongs to; it was there before, so that there are no circles
        parent_id      bigint           NULL,
        created_at     datetime2(3)     NOT NULL,
        sealed_at      datetime2(3)     NULL,
        -- The follow-up, as enqueue takes it.
        priority       smallint         NOT NULL,
        max_attempts   int              NULL,
        time_limit_ms  int              NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        correlation_id uniqueidentifier NULL,
        headers        nvarchar(1300)   COLLATE Latin1_General_100_BIN2 NULL,
        payload_utf16  bit              NOT NULL,
        payload        varbinary(max)   NULL,      -- NULL: there is none
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
        -- its call was this part of what is enqueued for the batch; of a part there is one
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
        queue_id     int          NOT NULL,  -- of the follow-up
        members      bigint       NULL,      -- how many jobs it has; NULL: it is not sealed yet
        done         bigint       NOT NULL CONSTRAINT batch_counts_done DEFAULT 0,
        dead         bigint       NOT NULL CONSTRAINT batch_counts_dead DEFAULT 0,
        cancelled    bigint       NOT NULL CONSTRAINT batch_counts_cancelled DEFAULT 0,
        ended_at     datetime2(3) NULL,      -- when the last one had ended; from then on nothing here changes
        follow_up_id bigint       NULL,      -- the job that was enqueued then
        CONSTRAINT batch_counts_pk PRIMARY KEY CLUSTERED (batch_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batch_counts_queue NONCLUSTERED (queue_id, batch_id)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF),
        INDEX batch_counts_ended NONCLUSTERED (queue_id, ended_at, batch_id)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
