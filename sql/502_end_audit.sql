-- Notes how an action has ended that begin_audit has noted. Of several calls the first counts. Another login's note
-- cannot be completed. No result set.
CREATE OR ALTER PROCEDURE [$(schema)].[end_audit]
    @audit_id bigint,
    @jobs     bigint        = NULL,  -- how many were changed, where that makes sense
    -- up to 400 characters; for example the error; what is longer is cut. NULL: it went well, and there is no more to
    -- say
    @outcome  nvarchar(401) = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @login nvarchar(128) = ISNULL(ORIGINAL_LOGIN(), USER_NAME()), @message nvarchar(2048);

IF @jobs < 0
    THROW 58003, N'jobs must be 0 or more', 1;
-- Half of a character beyond the first 65,536 (0xD800 to 0xDBFF, the second byte first) must not be the end.
IF DATALENGTH(@outcome) > 800
    SET @outcome = CAST(SUBSTRING(CAST(@outcome AS varbinary(802)), 1,
                                  CASE WHEN SUBSTRING(CAST(@outcome AS varbinary(802)), 800,
                                  1) BETWEEN 0xD8 AND 0xDB THEN 798 ELSE 800 END)
                        AS nvarchar(400));
UPDATE a
SET ended_at = SYSUTCDATETIME(), jobs = @jobs, outcome = @outcome
FROM [$(schema)].[audit] AS a WITH (ROWLOCK, INDEX (audit_pk))
WHERE audit_id = @audit_id AND login = @login AND ended_at IS NULL;
IF @@ROWCOUNT = 0
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[audit] WITH (FORCESEEK (audit_pk (audit_id)))
        WHERE audit_id = @audit_id AND login = @login)
BEGIN
    SET @message = CONCAT(N'this login has begun no action that is noted as ', @audit_id);
    THROW 58003, @message, 1;
END;
GO
