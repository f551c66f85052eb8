-- Takes pause_all back. Cannot run in a transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[resume_all]
AS
SET NOCOUNT, XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;  -- as in pause
IF @@TRANCOUNT > 0
    THROW 58003, N'resume_all would block all queues inside a transaction; COMMIT or ROLLBACK it first', 1;

DELETE [$(schema)].[holds] WHERE hold = 2;
EXEC [$(schema)].[set_hold] 2, 0;
GO
