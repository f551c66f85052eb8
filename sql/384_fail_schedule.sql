-- For the elected worker: stores why a schedule could not fire. The schedule is checked again ten seconds later, and no
-- time is skipped. Does nothing if the schedule has changed since it was read (@revision) or is locked.
CREATE OR ALTER PROCEDURE [$(schema)].[fail_schedule]
    @queue    nvarchar(129),
    @name     nvarchar(129),
    @revision int,
    @error    nvarchar(2048)
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

EXEC [$(schema)].[mend_text] @error OUTPUT;
UPDATE [$(schema)].[schedules] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
SET error = @error, look_at = DATEADD(SECOND, 10, @now), looked_at = @now, revision = revision + 1
WHERE queue_id = @queue_id AND name = @name AND revision = @revision AND paused = 0;
GO
