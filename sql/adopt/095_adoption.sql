-- The adoption of /*{table}*/: what it was made from, and the columns of jobs that say which row a job is.
IF OBJECT_ID(N'[$(schema)].[adoption]', N'U') IS NULL AND EXISTS (SELECT 1 FROM [$(schema)].[queues])
    THROW 58003, N'schema $(schema) has queues of its own; choose another schema for the adoption', 1;
IF OBJECT_ID(N'[$(schema)].[adoption]', N'U') IS NULL
    CREATE TABLE [$(schema)].[adoption]
    (
        queue      nvarchar(128) NOT NULL,
        table_name nvarchar(517) NOT NULL,
        mapping    nvarchar(max) NOT NULL,
        facts      nvarchar(max) NOT NULL,  -- what the table was, a line for each column, index and so on
        adopted_at datetime2(3)  NOT NULL CONSTRAINT adoption_adopted_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT adoption_pk PRIMARY KEY CLUSTERED (queue)
    );
GO
IF EXISTS (SELECT 1 FROM [$(schema)].[adoption] WHERE table_name <> /*{table_literal}*/ OR queue <> /*{queue_literal}*/)
    THROW 58003, N'schema $(schema) is the adoption of another table or under another queue name; remove that first, or choose another schema', 1;
GO
-- NULL in all of them: a column can be added at any time, whatever rows there are.
/*{add_columns}*/GO
/*{key_index}*/
