-- Makes one scheduled job ready before its time: a delayed one, or one that waits for its next attempt. A job of a group that has not the turn waits
-- for it then. It waits for whoever is changing the job.
-- Result: promoted (0: the queue has no such scheduled job).
CREATE OR ALTER PROCEDURE [$(schema)].[promote_now]
    @queue  nvarchar(129),
    @job_id bigint
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @promoted int, @state tinyint, @group_key nvarchar(128), @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;

BEGIN TRANSACTION;
UPDATE j
SET @state = state = CASE WHEN j.group_key IS NULL OR j.in_turn = 1 THEN 0 ELSE 6 END, @group_key = j.group_key, due_at = SYSUTCDATETIME()
FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk))
WHERE j.job_id = @job_id AND j.queue_id = @queue_id AND j.state = 1
OPTION (MAXDOP 1);
SET @promoted = @@ROWCOUNT;
IF @state = 6
    INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended) VALUES (@queue_id, @group_key, 0);
COMMIT TRANSACTION;
IF @state = 6
    EXEC [$(schema)].[advance_groups] @queue_id;
ELSE IF @promoted > 0
    EXEC [$(schema)].[lower_marks] @queue_id, @job_id;

SELECT @promoted AS promoted;
GO
