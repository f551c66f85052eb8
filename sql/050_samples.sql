-- The last sample of each queue's depth, for metrics (procedure sample).
IF OBJECT_ID(N'[$(schema)].[samples]', N'U') IS NULL
    CREATE TABLE [$(schema)].[samples]
    (
        queue_id      int          NOT NULL,
        begun_at      datetime2(3) NOT NULL,  -- when a session last started a sample
        sampled_at    datetime2(3) NULL,      -- the time of the numbers below; NULL: none yet
        ready         bigint       NOT NULL CONSTRAINT samples_ready DEFAULT 0,
        scheduled     bigint       NOT NULL CONSTRAINT samples_scheduled DEFAULT 0,
        claimed       bigint       NOT NULL CONSTRAINT samples_claimed DEFAULT 0,
        dead          bigint       NOT NULL CONSTRAINT samples_dead DEFAULT 0,
        workers       bigint       NOT NULL CONSTRAINT samples_workers DEFAULT 0,
        oldest_due_at datetime2(3) NULL,      -- when the oldest ready job was due; NULL: none is ready
        cancelled     bigint       NULL,
        waiting       bigint       NULL,
        open_batches  bigint       NULL,
        notes         int          NOT NULL CONSTRAINT samples_notes DEFAULT 0,  -- counts writes to history
        CONSTRAINT samples_pk PRIMARY KEY CLUSTERED (queue_id)
    );
GO
