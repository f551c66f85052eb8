-- Takes pause_all back. Cannot run in a transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[resume_all]
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;  -- as in pause
DECLARE @own bigint;
IF @@TRANCOUNT > 0
    THROW 58003, N'resume_all would block all queues inside a transaction; COMMIT or ROLLBACK it first', 1;

EXEC [$(schema)].[note_action] @audit_id, 'resume_all', NULL, @own OUTPUT;
DELETE [$(schema)].[holds] WHERE hold = 2;
EXEC [$(schema)].[set_hold] 2, 0;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
GO
