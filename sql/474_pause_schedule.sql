-- Pauses a schedule: it enqueues nothing until it is resumed. Jobs that it has enqueued stay.
CREATE OR ALTER PROCEDURE [$(schema)].[pause_schedule]
    @queue nvarchar(129),
    @name  nvarchar(129)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

UPDATE [$(schema)].[schedules] WITH (ROWLOCK)
SET paused = 1, revision = revision + 1
WHERE queue_id = @queue_id AND name = @name;
IF @@ROWCOUNT = 0
BEGIN
    SET @message = CONCAT(N'there is no schedule ''', @name, N''' in queue ''', @queue,
        N'''; set it with [$(schema)].[set_schedule]');
    EXEC [$(schema)].[raise] 58003, @message;
END;
GO
