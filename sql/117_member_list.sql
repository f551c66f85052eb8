-- Jobs of batches or groups that have finished or passed on their turn, for note_ends.
IF TYPE_ID(N'[$(schema)].[member_list]') IS NULL
    CREATE TYPE [$(schema)].[member_list] AS TABLE
    (
        job_id    bigint        NOT NULL PRIMARY KEY CLUSTERED,
        -- the new state: 3 done, 4 dead, 5 cancelled; any other: not finished
        state     tinyint       NULL,
        in_turn   bit           NULL,      -- as in jobs, before the change
        batch_id  bigint        NULL,
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL
    );
GO
