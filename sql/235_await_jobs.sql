-- Waits until a queue has a job to claim, or for about @wait_ms. Changes nothing, and no transaction is open and no lock is held while it
-- waits: the session sleeps in WAITFOR DELAY and looks at the head of the ready index between two delays.
-- Result: found.
--
-- An idle worker calls it on a connection of its own. It costs SQL Server one sleeping worker thread, and an index seek for each look; polling
-- from outside would cost a call each. Whatever it says, only a claim decides who gets a job.
CREATE OR ALTER PROCEDURE [$(schema)].[await_jobs]
    @queue    nvarchar(128),
    @first_ms int,  -- the delay before the first look; it doubles from look to look
    @most_ms  int,  -- up to this: how long a new job may go unnoticed
    @wait_ms  int   -- shorter than the caller's command time-out
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @delay_ms int = @first_ms, @waited_ms int = 0, @delay datetime, @found bit = 0, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @first_ms IS NULL OR @most_ms IS NULL OR @wait_ms IS NULL OR @first_ms < 1 OR @most_ms < @first_ms OR @most_ms > 3600000 OR @wait_ms < 1 OR @wait_ms > 3600000
    THROW 58003, N'first_ms must be at least 1 and at most most_ms, most_ms and wait_ms at most 3600000 (an hour)', 1;

WHILE @found = 0 AND @waited_ms < @wait_ms
BEGIN
    SET @delay = DATEADD(MILLISECOND, @delay_ms, CAST('19000101' AS datetime));
    WAITFOR DELAY @delay;
    SET @waited_ms = @waited_ms + @delay_ms;
    SET @delay_ms = CASE WHEN @delay_ms < @most_ms / 2 THEN @delay_ms * 2 ELSE @most_ms END;

    -- As a claim would see it: not what others have locked. Each job that is ready stands in one of the three indexes.
    IF EXISTS (SELECT 1 FROM [$(schema)].[queues] WHERE queue_id = @queue_id AND paused = 0)
        AND (   EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
                        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
                        WHERE queue_id = @queue_id AND state = 0 AND alone = 1))
        SET @found = 1;
END;

SELECT @found AS found;
GO
