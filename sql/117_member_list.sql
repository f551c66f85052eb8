-- Jobs of batches or groups that have ended or given their turn away, for note_ends.
IF TYPE_ID(N'[$(schema)].[member_list]') IS NULL
    CREATE TYPE [$(schema)].[member_list] AS TABLE
    (
        job_id    bigint        NOT NULL PRIMARY KEY CLUSTERED,
        -- what became of it: 3 done, 4 dead, 5 cancelled; anything else: it has not ended
        state     tinyint       NULL,
        in_turn   bit           NULL,      -- 1: it has the turn in its group
        batch_id  bigint        NULL,
        group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL
    );
GO
