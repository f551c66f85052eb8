-- Resumes a paused schedule with its next time from now on. Times that passed during the pause are not made up for.
-- Changes nothing if the schedule is not paused.
CREATE OR ALTER PROCEDURE [$(schema)].[resume_schedule]
    @queue    nvarchar(129),
    @name     nvarchar(129),
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @message nvarchar(2048), @own bigint,
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

EXEC [$(schema)].[note_action] @audit_id, 'resume_schedule', @queue, @own OUTPUT, @members;
UPDATE [$(schema)].[schedules] WITH (ROWLOCK)
SET next_at = CASE WHEN paused = 1 THEN @now ELSE next_at END,
    look_at = CASE WHEN paused = 1 THEN @now ELSE look_at END,
    looked_at = CASE WHEN paused = 1 THEN @now ELSE looked_at END, revision = revision + 1, paused = 0
WHERE queue_id = @queue_id AND name = @name;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
GO
