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
        kept       nvarchar(max) NOT NULL,  -- which columns jobs has for it, and what for
        give_back  nvarchar(max) NOT NULL,  -- the statements that put back what is held
        adopted_at datetime2(3)  NOT NULL CONSTRAINT adoption_adopted_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT adoption_pk PRIMARY KEY CLUSTERED (queue)
    );
GO
IF EXISTS (SELECT 1 FROM [$(schema)].[adoption] WHERE table_name <> /*{table_literal}*/ OR queue <> /*{queue_literal}*/)
    THROW 58003, N'schema $(schema) is the adoption of another table or under another queue name; remove that first, or choose another schema', 1;
GO
-- Jobs keep of a row what the procedures of their time need: another mapping, or another type, would find something else in them. So that
-- changes only while there are none, and no claim of before comes in between.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[adoption] WHERE kept = /*{kept}*/)
BEGIN
    DECLARE @drop nvarchar(max);
    BEGIN TRANSACTION;
    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (TABLOCKX, HOLDLOCK))
        THROW 58003, N'schema $(schema) has jobs, which were claimed under another mapping or other types; have them done, or readpast adopt --remove', 1;
    IF EXISTS (SELECT 1 FROM [$(schema)].[workers] WHERE lost_at IS NULL AND lease_until >= SYSUTCDATETIME())
        THROW 58003, N'workers of /*{table_text}*/ are running, and their claims would fail until this is installed; stop them first', 1;
    DROP PROCEDURE IF EXISTS [$(schema)].[claim];
    DROP INDEX IF EXISTS jobs_their_key ON [$(schema)].[jobs];
    WHILE 1 = 1
    BEGIN
        SELECT TOP (1) @drop = N'ALTER TABLE [$(schema)].[jobs] DROP COLUMN ' + QUOTENAME(name)
        FROM sys.columns
        WHERE object_id = OBJECT_ID(N'[$(schema)].[jobs]') AND LEFT(name, 6) = N'their_';
        IF @@ROWCOUNT = 0
            BREAK;
        EXEC sys.sp_executesql @drop;
    END;
    COMMIT TRANSACTION;
END;
GO
-- NULL in all of them: a column can be added at any time, whatever rows there are.
/*{add_columns}*/GO
/*{key_index}*/
