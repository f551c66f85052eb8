-- A group: the jobs of a queue with one group key. Up to group_limit of them have a turn (ready, claimed, scheduled for
-- a retry or, in a queue with halt_groups, dead). The others wait in state 6, which claims do not read. groups counts
-- the jobs that have a turn. A row exists if the count is not 0, or if advance_groups met a waiting job that was
-- locked. In a fair queue there are no turns: a row exists while jobs of the group wait, and claim_fair takes them from
-- there. Only advance_groups, claim_fair, and claim_runs, which gives turns to jobs behind the only one, change this
-- table.
-- group_events is the work list of advance_groups. Sessions that enqueue (ended = 0) or finish jobs only add rows in
-- their transactions, so they do not wait for each other. advance_groups searches from the job ids in this list,
-- because the head of jobs_waiting may be full of ghosts.
IF OBJECT_ID(N'[$(schema)].[groups]', N'U') IS NULL
    CREATE TABLE [$(schema)].[groups]
    (
        queue_id  int           NOT NULL,
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        in_turn   int           NOT NULL,
        -- no job below this id waits, except jobs in group_events
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
        job_id    bigint        NULL,      -- the first new waiting job
        CONSTRAINT group_events_pk PRIMARY KEY CLUSTERED (queue_id, event_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
-- Queues that have had jobs of batches, groups or edges. Finish calls of other queues skip the work for these. A
-- transaction that finds no committed row of its queue adds one, so that no transaction waits for another.
IF OBJECT_ID(N'[$(schema)].[linked_queues]', N'U') IS NULL
    CREATE TABLE [$(schema)].[linked_queues]
    (
        queue_id int    NOT NULL,
        link_id  bigint NOT NULL IDENTITY (1, 1),
        CONSTRAINT linked_queues_pk PRIMARY KEY CLUSTERED (queue_id, link_id)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
-- The weights of groups in fair queues (claim_fair): how many jobs a group gets in each round. Groups without a row have
-- the weight 1.
IF OBJECT_ID(N'[$(schema)].[group_weights]', N'U') IS NULL
    CREATE TABLE [$(schema)].[group_weights]
    (
        queue_id  int           NOT NULL,
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        weight    int           NOT NULL,
        CONSTRAINT group_weights_pk PRIMARY KEY CLUSTERED (queue_id, group_key)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
-- Where the round of a fair queue stands: the next claim goes on at this group, which has had so many jobs in this round.
IF OBJECT_ID(N'[$(schema)].[group_rounds]', N'U') IS NULL
    CREATE TABLE [$(schema)].[group_rounds]
    (
        queue_id  int           NOT NULL,
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        taken     int           NOT NULL,
        began_at  datetime2(3)  NOT NULL,  -- when the round began
        quantum   int           NOT NULL,  -- how many jobs a group gets for each unit of its weight
        seen      int           NOT NULL,  -- how many groups it has met so far, and how many the round before met
        last_seen int           NOT NULL,
        CONSTRAINT group_rounds_pk PRIMARY KEY CLUSTERED (queue_id)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
