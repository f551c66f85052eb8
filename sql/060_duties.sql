-- What one worker of a queue does for all of them (promote, reap, sample, sweep, expire, fire schedules), and who that
-- is. A row for each queue, made with it.
-- The worker that is named here renews "until" with each promote; when it has passed, the next heartbeat of any worker
-- takes the duties over.
IF OBJECT_ID(N'[$(schema)].[duties]', N'U') IS NULL
    CREATE TABLE [$(schema)].[duties]
    (
        queue_id  int              NOT NULL,
        worker_id uniqueidentifier NULL,
        until     datetime2(3)     NOT NULL CONSTRAINT duties_until DEFAULT '00010101',
        -- 1: the worker fails at one of them, another shall have them
        yielded   bit              NOT NULL CONSTRAINT duties_yielded DEFAULT 0,
        -- when somebody last promoted or reaped
        tended_at datetime2(3)     NOT NULL CONSTRAINT duties_tended_at DEFAULT SYSUTCDATETIME(),
        -- when the marks were last compared with the index
        swept_at  datetime2(3)     NOT NULL CONSTRAINT duties_swept_at DEFAULT SYSUTCDATETIME(),
        sweep_ms  int              NOT NULL CONSTRAINT duties_sweep_ms DEFAULT 0,                  -- how long that took
        -- Below these only entries that are deleted but not yet cleaned up (ghosts) are left, as far as is known: no
        -- scheduled job is due before due_from, and group_events has no row before events_from. promote and
        -- advance_groups begin there. Each minute promote looks below them for what was committed late.
        due_from    datetime2(3)   NOT NULL CONSTRAINT duties_due_from DEFAULT '00010101',
        events_from bigint         NOT NULL CONSTRAINT duties_events_from DEFAULT 0,
        looked_at   datetime2(3)   NOT NULL CONSTRAINT duties_looked_at DEFAULT '00010101',
        CONSTRAINT duties_pk PRIMARY KEY CLUSTERED (queue_id)
    );
GO
