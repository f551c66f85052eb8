-- Confirms that this database may be used although it was restored or copied (check_home): its jobs run from now on.
-- Before that, delete or cancel those that must not run a second time. With @server and @database_name, only notes
-- another database in advance that is no copy, such as the partner of a geo-replication. Cannot run in a transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[confirm_copy]
    @server        nvarchar(129) = NULL,  -- as SERVERPROPERTY(N'ServerName') returns it there
    @database_name nvarchar(129) = NULL,
    @audit_id      bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT, CONCAT_NULL_YIELDS_NULL ON;
SET IMPLICIT_TRANSACTIONS OFF;  -- as in pause
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @own bigint, @members nvarchar(max);
IF @@TRANCOUNT > 0
    THROW 58003, N'confirm_copy would block all queues inside a transaction; COMMIT or ROLLBACK it first', 1;

IF @server IS NOT NULL AND @database_name IS NULL OR @server IS NULL AND @database_name IS NOT NULL
    THROW 58003, N'server and database_name must be given together', 1;

IF DATALENGTH(@server) > 256 OR DATALENGTH(@database_name) > 256
    THROW 58003, N'server and database_name must have at most 128 characters', 1;
SET @members = N',"server":"' + STRING_ESCAPE(@server, 'json') + N'","database":"'
    + STRING_ESCAPE(@database_name, 'json') + N'"';  -- NULL (no details) if this database itself is confirmed
EXEC [$(schema)].[note_action] @audit_id, 'confirm_copy', NULL, @own OUTPUT, @members;
IF @server IS NOT NULL
BEGIN
    INSERT [$(schema)].[homes] (server, database_name, noted_at, login)
    VALUES (@server, @database_name, SYSUTCDATETIME(), ISNULL(ORIGINAL_LOGIN(), USER_NAME()));
    IF @own IS NOT NULL
        EXEC [$(schema)].[end_audit] @own;
    RETURN 0;
END;
EXEC [$(schema)].[check_home] @confirm = 1;
-- As resume_schedule: the times that have passed meanwhile are not made up for, because they fired in the original.
UPDATE s
SET next_at = @now, look_at = @now, looked_at = @now, revision = revision + 1
FROM [$(schema)].[schedules] AS s WITH (ROWLOCK)
WHERE s.next_at < @now
    AND EXISTS (SELECT 1 FROM [$(schema)].[queues] AS q WHERE q.queue_id = s.queue_id AND q.paused >= 4)
OPTION (MAXDOP 1);
DELETE [$(schema)].[holds] WHERE hold = 4;
EXEC [$(schema)].[set_hold] 4, 0;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
GO
