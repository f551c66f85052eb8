-- The elected worker of each queue, which promotes, reaps, samples, sweeps, expires rows and fires schedules. Each
-- promote renews "until". After that time, the next heartbeat of any worker of the queue takes over.
IF OBJECT_ID(N'[$(schema)].[duties]', N'U') IS NULL
    CREATE TABLE [$(schema)].[duties]
    (
        queue_id  int              NOT NULL,
        worker_id uniqueidentifier NULL,
        until     datetime2(3)     NOT NULL CONSTRAINT duties_until DEFAULT '00010101',
        -- 1: the worker fails at one of its duties, so another worker is to be elected
        yielded   bit              NOT NULL CONSTRAINT duties_yielded DEFAULT 0,
        -- the last promote or reap
        tended_at datetime2(3)     NOT NULL CONSTRAINT duties_tended_at DEFAULT SYSUTCDATETIME(),
        -- the last comparison of the marks with the index
        swept_at  datetime2(3)     NOT NULL CONSTRAINT duties_swept_at DEFAULT SYSUTCDATETIME(),
        sweep_ms  int              NOT NULL CONSTRAINT duties_sweep_ms DEFAULT 0,  -- how long the last sweep took
        -- promote and advance_groups start reading at these two: below them, only ghosts are known. Once a minute,
        -- promote also reads below them, to find rows that were committed late.
        due_from    datetime2(3)   NOT NULL CONSTRAINT duties_due_from DEFAULT '00010101',
        events_from bigint         NOT NULL CONSTRAINT duties_events_from DEFAULT 0,
        looked_at   datetime2(3)   NOT NULL CONSTRAINT duties_looked_at DEFAULT '00010101',
        CONSTRAINT duties_pk PRIMARY KEY CLUSTERED (queue_id)
    );
GO
