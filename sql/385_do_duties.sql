-- For a SQL Server Agent job, where no worker runs for a while: does what the elected worker of each queue does, or of
-- one queue, except schedules, whose times only a worker can calculate. Due jobs become ready, jobs of lost workers
-- return, late jobs expire, the depth is sampled for queues_now, and old rows are deleted (up to 1,000 per call).
-- It is harmless while workers run. After an error in one queue, it goes on with the others and raises it at the end.
-- Cannot run in a transaction. Results: those of reap, promote, sample and expire, for each queue.
CREATE OR ALTER PROCEDURE [$(schema)].[do_duties]
    @queue nvarchar(129) = NULL
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET IMPLICIT_TRANSACTIONS OFF;  -- as in pause
DECLARE @name nvarchar(128), @number int, @message nvarchar(2048), @found bit = 0;
IF @@TRANCOUNT > 0
    THROW 58003, N'do_duties cannot run inside a transaction; COMMIT or ROLLBACK it first', 1;

EXEC [$(schema)].[check_home];
WHILE 1 = 1
BEGIN
    SET @name = (SELECT TOP (1) q.name FROM [$(schema)].[queues] AS q WITH (NOLOCK)
                 WHERE (q.name > @name OR @name IS NULL) AND (@queue IS NULL OR q.name = @queue)
                 ORDER BY q.name);
    IF @name IS NULL
        BREAK;
    SET @found = 1;
    BEGIN TRY
        EXEC [$(schema)].[reap] @queue = @name;
        EXEC [$(schema)].[promote] @queue = @name;
        EXEC [$(schema)].[sample] @queue = @name, @max_age_ms = 5000;
        EXEC [$(schema)].[expire] @queue = @name;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        -- The queue may have been deleted meanwhile.
        IF ERROR_NUMBER() <> 58001
            SELECT @number = ISNULL(@number, ERROR_NUMBER()),
                   @message = ISNULL(@message, CONCAT(N'the duties of queue ', @name, N' failed with error ',
                                                      ERROR_NUMBER(), N': ', ERROR_MESSAGE()));
    END CATCH;
END;
IF @queue IS NOT NULL AND @found = 0
    EXEC [$(schema)].[unknown_queue] @queue;
IF @message IS NOT NULL
    EXEC [$(schema)].[raise] 58003, @message;
GO
