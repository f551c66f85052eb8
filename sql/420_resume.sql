-- Resumes a paused queue. Cannot run in a transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[resume]
    @queue    nvarchar(129),
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;  -- as in pause
DECLARE @own bigint;
IF @@TRANCOUNT > 0
    THROW 58003, N'resume would block the queue inside a transaction; COMMIT or ROLLBACK it first', 1;
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue)
    EXEC [$(schema)].[unknown_queue] @queue;

EXEC [$(schema)].[note_action] @audit_id, 'resume', @queue, @own OUTPUT;
UPDATE q
SET paused = paused - paused % 2  -- but not pause_all
FROM [$(schema)].[queues] AS q WITH (ROWLOCK, FORCESEEK, INDEX (queues_name))
WHERE q.name = @queue;
IF @@ROWCOUNT = 0
    EXEC [$(schema)].[unknown_queue] @queue;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
GO
