-- Pauses a schedule: it enqueues nothing until it is resumed. Jobs that it has enqueued stay.
CREATE OR ALTER PROCEDURE [$(schema)].[pause_schedule]
    @queue    nvarchar(129),
    @name     nvarchar(129),
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048), @own bigint,
    @members nvarchar(1000) = CONCAT(N',"schedule":"', STRING_ESCAPE(@name, 'json'), N'"');

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

IF NOT EXISTS (SELECT 1 FROM [$(schema)].[schedules] WITH (ROWLOCK, READCOMMITTEDLOCK)
               WHERE queue_id = @queue_id AND name = @name)
BEGIN
    SET @message = CONCAT(N'there is no schedule ''', @name, N''' in queue ''', @queue,
        N'''; set it with [$(schema)].[set_schedule]');
    EXEC [$(schema)].[raise] 58003, @message;
END;

EXEC [$(schema)].[note_action] @audit_id, 'pause_schedule', @queue, @own OUTPUT, @members;
UPDATE [$(schema)].[schedules] WITH (ROWLOCK)
SET paused = 1, revision = revision + 1
WHERE queue_id = @queue_id AND name = @name;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
GO
