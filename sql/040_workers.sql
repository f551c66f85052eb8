-- A worker: one running process that claims from one queue, with its lease. A worker whose lease ran out, and one that has ended, is marked
-- lost, and its row stays for a day: a claim of it that was under way at that moment can still commit, and the next reap must find those jobs.
IF OBJECT_ID(N'[$(schema)].[workers]', N'U') IS NULL
    CREATE TABLE [$(schema)].[workers]
    (
        worker_id     uniqueidentifier NOT NULL,  -- new at each start of the process
        queue_id      int              NOT NULL,
        name          nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,  -- the same at each start
        lease_ms      int              NOT NULL,
        registered_at datetime2(3)     NOT NULL,
        lease_until   datetime2(3)     NOT NULL,
        lost_at       datetime2(3)     NULL,
        unserved      tinyint          NOT NULL CONSTRAINT workers_unserved DEFAULT 0,  -- how often it got a new lease unasked since its last heartbeat, see tend
        CONSTRAINT workers_pk PRIMARY KEY CLUSTERED (worker_id)
    );
GO
