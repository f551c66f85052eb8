-- Groups: jobs of a queue with one key, of which no more than the queue's group_limit have the turn at once (ready,
-- claimed or scheduled for their next attempt); the others wait in state 6, where no claim meets them.
-- groups: how many have the turn; a row only where there are some, or where a job waits that advance_groups could not
-- have. Only advance_groups changes it.
-- group_events: what advance_groups is to look at. Rows are only added, by whoever enqueues or ends jobs and in the
-- same transaction, so that nobody waits for anybody here: to a group has come a job (ended = 0), or jobs of it have
-- given their turn away. Each job that comes to wait has its row here: advance_groups looks for waiting jobs from there
-- on, and not at the head of jobs_waiting, which may be full of entries that are deleted but not yet cleaned up
-- (ghosts).
IF OBJECT_ID(N'[$(schema)].[groups]', N'U') IS NULL
    CREATE TABLE [$(schema)].[groups]
    (
        queue_id  int           NOT NULL,
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        in_turn   int           NOT NULL,
        -- no job waits below, but for those of group_events
        from_id   bigint        NOT NULL CONSTRAINT groups_from_id DEFAULT 0,
        CONSTRAINT groups_pk PRIMARY KEY CLUSTERED (queue_id, group_key)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
IF OBJECT_ID(N'[$(schema)].[group_events]', N'U') IS NULL
    CREATE TABLE [$(schema)].[group_events]
    (
        queue_id  int           NOT NULL,
        event_id  bigint        NOT NULL IDENTITY (1, 1),
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        ended     int           NOT NULL,
        job_id    bigint        NULL,      -- the first of the jobs that came to wait
        CONSTRAINT group_events_pk PRIMARY KEY CLUSTERED (queue_id, event_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
-- Queues that have had jobs in batches or groups: where there is no row, acknowledgements do not even look for such
-- jobs. A row for each transaction that found none committed: nobody waits for another's.
IF OBJECT_ID(N'[$(schema)].[linked_queues]', N'U') IS NULL
    CREATE TABLE [$(schema)].[linked_queues]
    (
        queue_id int    NOT NULL,
        link_id  bigint NOT NULL IDENTITY (1, 1),
        CONSTRAINT linked_queues_pk PRIMARY KEY CLUSTERED (queue_id, link_id)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
