-- What the jobs of an enqueue_list wait for. Each row has a parent: a job, or an earlier job of the list.
IF TYPE_ID(N'[$(schema)].[edge_list]') IS NULL
    CREATE TYPE [$(schema)].[edge_list] AS TABLE
    (
        ordinal        int         NOT NULL,  -- of the job in enqueue_list
        place          int         NOT NULL,  -- any number, another one for each parent of the job
        parent_id      bigint      NULL,
        parent_ordinal int         NULL,      -- or so; smaller than ordinal
        -- If the parent dies: hold (NULL) lets the job wait on, because the parent may be requeued; cancel cancels it;
        -- run starts it, as it does if the parent is cancelled. Otherwise, a cancelled or deleted parent cancels it.
        on_dead        varchar(10) COLLATE Latin1_General_100_BIN2 NULL,
        PRIMARY KEY CLUSTERED (ordinal, place)
    );
GO
