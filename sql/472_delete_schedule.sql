-- Deletes a schedule, but not the jobs that it has enqueued. Result: deleted (0: no such schedule).
CREATE OR ALTER PROCEDURE [$(schema)].[delete_schedule]
    @queue nvarchar(129),
    @name  nvarchar(129)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

DELETE [$(schema)].[schedules] WITH (ROWLOCK) WHERE queue_id = @queue_id AND name = @name;

SELECT CAST(@@ROWCOUNT AS bit) AS deleted;
GO
