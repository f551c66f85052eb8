-- Jobs that have finished or were deleted, for note_ends (batches and groups, also turns that were passed on) and
-- note_edges.
IF TYPE_ID(N'[$(schema)].[member_list]') IS NULL
    CREATE TYPE [$(schema)].[member_list] AS TABLE
    (
        job_id    bigint        NOT NULL PRIMARY KEY CLUSTERED,
        -- the new state: 3 done, 4 dead, 5 cancelled; any other: not finished
        state     tinyint       NULL,
        in_turn   bit           NULL,      -- as in jobs, before the change
        batch_id  bigint        NULL,
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
        last_state tinyint      NULL       -- of a deleted job
    );
GO
