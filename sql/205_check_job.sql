-- Checks the attributes of one job, for enqueue, set_schedule and create_batch. enqueue_batch repeats the rules.
CREATE OR ALTER PROCEDURE [$(schema)].[check_job]
    @max_attempts  int,
    @dedup_key     nvarchar(257),
    @kind          nvarchar(65),
    @time_limit_ms bigint,
    @headers       nvarchar(1301),
    @group_key     nvarchar(129),
    @needs         nvarchar(1001)
AS
SET NOCOUNT ON;  -- keeps the caller's XACT_ABORT, for @on_bad of enqueue
IF @max_attempts < 1
    EXEC [$(schema)].[refuse] N'max_attempts', @max_attempts, N'1 or more';
-- DATALENGTH counts two bytes per character. Trailing spaces are rejected, because comparisons ignore them.
IF DATALENGTH(@dedup_key) = 0 OR DATALENGTH(@dedup_key) > 512
    OR DATALENGTH(@dedup_key) <> DATALENGTH(LTRIM(RTRIM(@dedup_key)))
    THROW 58003, N'dedup_key must have 1 to 256 characters, with no leading or trailing spaces', 1;
IF DATALENGTH(@kind) = 0 OR DATALENGTH(@kind) > 128 OR @kind COLLATE Latin1_General_100_BIN2 LIKE N'%[^!-~]%'
    THROW 58003, N'kind must have 1 to 64 printable ASCII characters, no spaces', 1;
IF @time_limit_ms < 1 OR @time_limit_ms > 2147483647
    EXEC [$(schema)].[refuse] N'time_limit_ms', @time_limit_ms, N'1 to 2147483647 (24 days)';
IF DATALENGTH(@headers) > 2600 OR ISJSON(@headers) = 0 OR @headers NOT LIKE N'{%'
    THROW 58003, N'headers must be a JSON object of up to 1300 characters, which begins with {', 1;
IF DATALENGTH(@group_key) = 0 OR DATALENGTH(@group_key) > 256
    OR DATALENGTH(@group_key) <> DATALENGTH(LTRIM(RTRIM(@group_key)))
    THROW 58003, N'group_key must have 1 to 128 characters, with no leading or trailing spaces', 1;
IF @dedup_key IS NOT NULL
    EXEC [$(schema)].[check_text] N'dedup_key', @dedup_key, 1;
IF @group_key IS NOT NULL
    EXEC [$(schema)].[check_text] N'group_key', @group_key, 1;
IF @headers IS NOT NULL
BEGIN
    EXEC [$(schema)].[check_text] N'headers', @headers;
    -- A separate statement, because OPENJSON fails if the text is not JSON.
    IF EXISTS (SELECT 1 FROM OPENJSON(@headers) WHERE [key] LIKE N'readpast-%')
        THROW 58003, N'headers must not have names that begin with readpast-', 1;
END;
IF @needs IS NOT NULL
    EXEC [$(schema)].[check_needs] @needs;
GO
