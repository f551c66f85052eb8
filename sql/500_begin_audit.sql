-- Notes that somebody is about to do something to a queue or its jobs, for those who ask later who it was. The program
-- that does it says so before, and how it ended after (end_audit). It belongs outside of the transaction of what is
-- done, which would take the note back with itself. Deletes a few notes of more than 400 days, the oldest first, and
-- skips those that are locked: so many that they cannot pile up. No result set: the number of the note comes back in
-- @audit_id.
CREATE OR ALTER PROCEDURE [$(schema)].[begin_audit]
    -- the person as the program knows them: 1 to 256 characters. The login is noted beside
    @who      nvarchar(257),
    @action   varchar(33),            -- what is done, as a word: 1 to 32 printable ASCII characters, no spaces
    @queue    nvarchar(129) = NULL,   -- by its name; it need not exist (any more)
    @what     nvarchar(max) = NULL,   -- JSON, up to 100,000 characters: the filter, or the jobs, or other settings
    @audit_id bigint        = NULL OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();

IF @who IS NULL OR DATALENGTH(@who) = 0 OR DATALENGTH(@who) > 512
    THROW 58003, N'who must have 1 to 256 characters', 1;
EXEC [$(schema)].[check_text] N'who', @who;
IF @action IS NULL OR DATALENGTH(@action) = 0 OR DATALENGTH(@action) > 32
    OR @action COLLATE Latin1_General_100_BIN2 LIKE '%[^!-~]%'
    THROW 58003, N'action must have 1 to 32 printable ASCII characters, no spaces', 1;
IF DATALENGTH(@queue) > 256
    THROW 58003, N'queue must have up to 128 characters', 1;
EXEC [$(schema)].[check_text] N'queue', @queue;
IF DATALENGTH(@what) > 200000
    THROW 58003, N'what must have up to 100000 characters', 1;
IF ISJSON(@what) = 0
    THROW 58003, N'what must be a JSON object or array', 1;
EXEC [$(schema)].[check_text] N'what', @what;

-- (In Azure SQL Database ORIGINAL_LOGIN is NULL.)
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
