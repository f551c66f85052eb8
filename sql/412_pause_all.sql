-- Pauses all queues of the schema, also those that are created later, until resume_all. Queues that were paused
-- individually stay paused after that. Cannot run in a transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[pause_all]
    @why      nvarchar(401) = NULL,  -- for list_holds, up to 400 characters
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;  -- as in pause
DECLARE @login nvarchar(128) = ISNULL(ORIGINAL_LOGIN(), USER_NAME()), @own bigint;
IF @@TRANCOUNT > 0
    THROW 58003, N'pause_all would block all queues inside a transaction; COMMIT or ROLLBACK it first', 1;
IF DATALENGTH(@why) > 800
    THROW 58003, N'why must have at most 400 characters', 1;
EXEC [$(schema)].[check_text] N'why', @why;

EXEC [$(schema)].[note_action] @audit_id, 'pause_all', NULL, @own OUTPUT, @why = @why;
-- The hold first: create_queue adds its queue before it looks for holds.
UPDATE [$(schema)].[holds] SET why = ISNULL(@why, why), login = @login WHERE hold = 2;
IF @@ROWCOUNT = 0
    INSERT [$(schema)].[holds] (hold, since, login, why)
    SELECT 2, SYSUTCDATETIME(), @login, @why
    WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[holds] WITH (UPDLOCK, HOLDLOCK) WHERE hold = 2);
EXEC [$(schema)].[set_hold] 2, 1;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
GO
