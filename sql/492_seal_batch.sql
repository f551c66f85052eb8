-- Seals a batch in the caller's transaction. No more jobs can be added, and the batch completes when all its jobs have
-- finished, or at once if they already have. Waits for transactions that are adding jobs. A second call has no effect.
-- Result: members, ended.
CREATE OR ALTER PROCEDURE [$(schema)].[seal_batch]
    @batch_id bigint,
    @report   bit = 1
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @members bigint, @is_complete bit = 0, @message nvarchar(2048);

BEGIN TRANSACTION;
UPDATE [$(schema)].[batches] WITH (ROWLOCK)
SET sealed_at = SYSUTCDATETIME()
WHERE batch_id = @batch_id AND sealed_at IS NULL
OPTION (MAXDOP 1);
IF @@ROWCOUNT > 0
BEGIN
    -- By now, all additions are committed or belong to this transaction.
    SET @members = (SELECT ISNULL(SUM(CAST(a.jobs AS bigint)), 0)
                    FROM [$(schema)].[batch_additions] AS a WITH (ROWLOCK, READCOMMITTEDLOCK)
                    WHERE a.batch_id = @batch_id);
    DELETE [$(schema)].[batch_additions] WITH (ROWLOCK) WHERE batch_id = @batch_id;
    UPDATE [$(schema)].[batch_counts] WITH (ROWLOCK)
    SET members = @members, @is_complete = CASE WHEN done + dead + cancelled >= @members THEN 1 ELSE 0 END
    WHERE batch_id = @batch_id;
    IF @is_complete = 1
        EXEC [$(schema)].[end_batch] @batch_id;
END;
ELSE IF NOT EXISTS (SELECT 1 FROM [$(schema)].[batches] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE batch_id = @batch_id)
BEGIN
    SET @message = CONCAT(N'there is no batch ', @batch_id,
        N'; create one with [$(schema)].[create_batch] (batches are deleted a week after their end)');
    THROW 58021, @message, 1;
END;
COMMIT TRANSACTION;

IF @report = 1
    SELECT c.members, CAST(CASE WHEN c.ended_at IS NULL THEN 0 ELSE 1 END AS bit) AS ended
    FROM [$(schema)].[batch_counts] AS c WITH (ROWLOCK, READCOMMITTEDLOCK)
    WHERE c.batch_id = @batch_id;
GO
