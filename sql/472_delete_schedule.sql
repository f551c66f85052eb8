-- Deletes a schedule, but not the jobs that it has enqueued. Result: deleted (0: no such schedule).
CREATE OR ALTER PROCEDURE [$(schema)].[delete_schedule]
    @queue    nvarchar(129),
    @name     nvarchar(129),
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int, @deleted bit, @own bigint,
    @members nvarchar(1000) = CONCAT(N',"schedule":"', STRING_ESCAPE(@name, 'json'), N'"');

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

EXEC [$(schema)].[note_action] @audit_id, 'delete_schedule', @queue, @own OUTPUT, @members;
DELETE [$(schema)].[schedules] WITH (ROWLOCK) WHERE queue_id = @queue_id AND name = @name;
SET @deleted = @@ROWCOUNT;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;

SELECT @deleted AS deleted;
GO
