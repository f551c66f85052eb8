-- Records the outcome of an action that begin_audit has recorded for this login. Only the first call counts. No result
-- set.
CREATE OR ALTER PROCEDURE [$(schema)].[end_audit]
    @audit_id bigint,
    @jobs     bigint        = NULL,  -- how many jobs were changed
    @outcome  nvarchar(401) = NULL   -- for example an error, cut after 400 characters; NULL: the action succeeded
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @login nvarchar(128) = ISNULL(ORIGINAL_LOGIN(), USER_NAME()), @message nvarchar(2048);

IF @jobs < 0
    EXEC [$(schema)].[refuse] N'jobs', @jobs, N'0 or more';
-- Does not end with the first half of a surrogate pair (0xD800 to 0xDBFF, the second byte first).
IF DATALENGTH(@outcome) > 800
    SET @outcome = CAST(SUBSTRING(CAST(@outcome AS varbinary(802)), 1,
        CASE WHEN SUBSTRING(CAST(@outcome AS varbinary(802)), 800, 1) BETWEEN 0xD8 AND 0xDB THEN 798 ELSE 800 END)
        AS nvarchar(400));
UPDATE a
SET ended_at = SYSUTCDATETIME(), jobs = @jobs, outcome = @outcome
FROM [$(schema)].[audit] AS a WITH (ROWLOCK, INDEX (audit_pk))
WHERE audit_id = @audit_id AND login = @login AND ended_at IS NULL;
IF @@ROWCOUNT = 0
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[audit] WITH (FORCESEEK (audit_pk (audit_id)))
        WHERE audit_id = @audit_id AND login = @login)
BEGIN
    SET @message = CONCAT(N'this login has no audit entry ', @audit_id);
    THROW 58003, @message, 1;
END;
GO
