-- The databases in which this schema has been used. One that is not among them is a restored or copied database, in
-- which nothing is claimed until an operator has confirmed it (check_home, confirm_copy).
IF OBJECT_ID(N'[$(schema)].[homes]', N'U') IS NULL
    CREATE TABLE [$(schema)].[homes]
    (
        home_id            int              NOT NULL IDENTITY CONSTRAINT homes_pk PRIMARY KEY CLUSTERED,
        server             nvarchar(128)    COLLATE Latin1_General_100_BIN2 NULL,
        database_name      nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        -- NULL: unknown, because the login may not see it, or in Azure
        database_guid      uniqueidentifier NULL,
        recovery_fork_guid uniqueidentifier NULL,
        group_database_id  uniqueidentifier NULL,  -- in an availability group: the same in each replica
        noted_at           datetime2(3)     NOT NULL,
        login              nvarchar(128)    COLLATE Latin1_General_100_BIN2 NULL  -- of the session that noted it
    );
GO
-- What holds all queues of the schema: a row for each reason.
IF OBJECT_ID(N'[$(schema)].[holds]', N'U') IS NULL
    CREATE TABLE [$(schema)].[holds]
    (
        hold  tinyint       NOT NULL CONSTRAINT holds_pk PRIMARY KEY CLUSTERED,  -- 2 or 4: see queues.paused
        since datetime2(3)  NOT NULL,
        login nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
        why   nvarchar(400) COLLATE Latin1_General_100_BIN2 NULL
    );
GO
