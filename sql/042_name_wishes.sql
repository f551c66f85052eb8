-- What an operator has asked of each worker of a name, also of those that start later (worker_wish with @by_name = 1).
IF OBJECT_ID(N'[$(schema)].[name_wishes]', N'U') IS NULL
    CREATE TABLE [$(schema)].[name_wishes]
    (
        queue_id    int           NOT NULL,
        name        nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        quiet       bit           NOT NULL,
        threads     int           NULL,
        debug_until datetime2(3)  NULL,
        CONSTRAINT name_wishes_pk PRIMARY KEY CLUSTERED (queue_id, name)
    );
GO
