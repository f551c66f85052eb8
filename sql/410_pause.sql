-- Pauses a queue: no more jobs are claimed. Claimed jobs finish, and jobs can still be enqueued. Cannot run in a
-- transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[pause]
    @queue    nvarchar(129),
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;  -- a client's setting would leave a transaction open after this call
DECLARE @own bigint;
IF @@TRANCOUNT > 0
    THROW 58003, N'pause would block the queue inside a transaction; COMMIT or ROLLBACK it first', 1;
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue)
    EXEC [$(schema)].[unknown_queue] @queue;

EXEC [$(schema)].[note_action] @audit_id, 'pause', @queue, @own OUTPUT;
UPDATE q
SET paused = paused + 1 - paused % 2
FROM [$(schema)].[queues] AS q WITH (ROWLOCK, FORCESEEK, INDEX (queues_name))
WHERE q.name = @queue;
IF @@ROWCOUNT = 0
    EXEC [$(schema)].[unknown_queue] @queue;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
GO
