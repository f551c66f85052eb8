-- Called by each operator procedure before its first change: adds an entry to the audit, unless the caller has one. The
-- entry's who is then the login. end_audit completes the entry (@own). Procedures with a single explicit transaction do
-- all of this in it.
CREATE OR ALTER PROCEDURE [$(schema)].[note_action]
    @audit_id bigint,                        -- the caller's entry (begin_audit), which may cover many calls; NULL: none
    @action   varchar(32),
    @queue    nvarchar(128)  = NULL,
    @own      bigint         = NULL OUTPUT,  -- the entry that this call has added; NULL: none
    @members  nvarchar(max)  = NULL,         -- of the entry's JSON object, each with a leading comma: N',"priority":5'
    @why      nvarchar(1000) = NULL,
    @jobs     [$(schema)].[id_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @login nvarchar(128) = ISNULL(ORIGINAL_LOGIN(), USER_NAME()), @named int, @listed nvarchar(max),
    @what nvarchar(max);

SET @own = NULL;
IF @audit_id IS NOT NULL
BEGIN
    -- READPAST skips other sessions' uncommitted entries, because they could be rolled back.
    IF NOT EXISTS (SELECT 1 FROM [$(schema)].[audit]
                       WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (audit_pk (audit_id)))
                   WHERE audit_id = @audit_id AND login = @login AND ended_at IS NULL)
        EXEC [$(schema)].[refuse] N'audit_id', @audit_id, N'an entry that this login has begun and not ended';
    RETURN 0;
END;
SELECT @named = COUNT(*), @listed = STRING_AGG(CAST(job_id AS nvarchar(max)), N',') FROM @jobs;
IF @named > 0
    SET @members = CONCAT(N',"jobs":[', @listed, N'],"named":', @named, @members);
IF @why <> N''
    SET @members = CONCAT(@members, N',"why":"', STRING_ESCAPE(@why, 'json'), N'"');
IF @members IS NOT NULL
    SET @what = CONCAT(N'{', SUBSTRING(@members, 2, 100000), N'}');
EXEC [$(schema)].[begin_audit] @login, @action, @queue, @what, @own OUTPUT;
GO
