-- Records that a person starts an action on a queue or its jobs; end_audit records the outcome. Call it outside the
-- action's transaction, whose rollback would undo the record. Also deletes up to 100 rows that are older than 400 days
-- and not locked, the oldest first. No result set: the row's id is returned in @audit_id.
CREATE OR ALTER PROCEDURE [$(schema)].[begin_audit]
    @who      nvarchar(257),          -- the person, as named by the program: 1 to 256 characters
    @action   varchar(33),            -- a word: 1 to 32 printable ASCII characters, no spaces
    @queue    nvarchar(129) = NULL,   -- the queue's name; the queue need not exist
    @what     nvarchar(max) = NULL,   -- JSON, up to 100,000 characters: the filter, the jobs or other settings
    @audit_id bigint        = NULL OUTPUT
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();

IF @who IS NULL OR DATALENGTH(@who) = 0 OR DATALENGTH(@who) > 512
    THROW 58003, N'who must have 1 to 256 characters', 1;
EXEC [$(schema)].[check_text] N'who', @who;
IF @action IS NULL OR DATALENGTH(@action) = 0 OR DATALENGTH(@action) > 32
    OR @action COLLATE Latin1_General_100_BIN2 LIKE '%[^!-~]%'
    THROW 58003, N'action must have 1 to 32 printable ASCII characters, no spaces', 1;
IF DATALENGTH(@queue) > 256
    THROW 58003, N'queue must have at most 128 characters', 1;
EXEC [$(schema)].[check_text] N'queue', @queue;
IF DATALENGTH(@what) > 200000
    THROW 58003, N'what must have at most 100000 characters', 1;
IF ISJSON(@what) = 0
    THROW 58003, N'what must be a JSON object or array', 1;
EXEC [$(schema)].[check_text] N'what', @what;

-- In Azure SQL Database ORIGINAL_LOGIN is NULL.
INSERT [$(schema)].[audit] WITH (ROWLOCK) (began_at, who, login, action, queue, what)
VALUES (@now, @who, ISNULL(ORIGINAL_LOGIN(), USER_NAME()), @action, @queue, @what);
SET @audit_id = CAST(SCOPE_IDENTITY() AS bigint);

IF (SELECT TOP (1) began_at FROM [$(schema)].[audit] WITH (NOLOCK) ORDER BY audit_id) < DATEADD(DAY, -400, @now)
BEGIN
    WITH oldest AS
    (
        SELECT TOP (100) began_at FROM [$(schema)].[audit] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (audit_pk))
        ORDER BY audit_id
    )
    DELETE FROM oldest WHERE began_at < DATEADD(DAY, -400, @now)
    OPTION (MAXDOP 1);
END;
GO
