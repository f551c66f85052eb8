-- Adds a hold to the pause of all queues (queues.paused), or removes it. One queue after the other, because a queue
-- that somebody has just created in an open transaction must not keep the others locked. The caller has written holds.
CREATE OR ALTER PROCEDURE [$(schema)].[set_hold]
    @hold tinyint,  -- 2 or 4
    @on   bit
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int = 0;
WHILE 1 = 1
BEGIN
    SET @queue_id = (SELECT TOP (1) queue_id FROM [$(schema)].[queues] WITH (NOLOCK)
                     WHERE queue_id > @queue_id AND paused / @hold % 2 <> @on ORDER BY queue_id);
    IF @queue_id IS NULL
        BREAK;
    UPDATE [$(schema)].[queues] WITH (ROWLOCK)
    SET paused = paused + CASE WHEN @on = 1 THEN 1 ELSE -1 END * CAST(@hold AS int)
    WHERE queue_id = @queue_id AND paused / @hold % 2 <> @on;
END;
GO
