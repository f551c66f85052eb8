-- Checks that a batch exists and is not sealed, and prevents its sealing until the transaction ends. Called by
-- procedures that add jobs to a batch, in their transaction. Does nothing if @batch_id is NULL.
CREATE OR ALTER PROCEDURE [$(schema)].[lock_batch]
    @batch_id bigint
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @found bit = 0, @sealed_at datetime2(3), @message nvarchar(2048);

IF @batch_id IS NULL
    RETURN;
-- REPEATABLEREAD keeps the shared lock until the transaction ends, even under READ_COMMITTED_SNAPSHOT.
SELECT @found = 1, @sealed_at = sealed_at
FROM [$(schema)].[batches] WITH (ROWLOCK, REPEATABLEREAD, FORCESEEK (batches_pk (batch_id)))
WHERE batch_id = @batch_id
OPTION (MAXDOP 1);
IF @found = 0
BEGIN
    SET @message = CONCAT(N'there is no batch ', @batch_id,
        N'; create one with [$(schema)].[create_batch] (batches are deleted a week after their end)');
    THROW 58021, @message, 1;
END;
IF @sealed_at IS NOT NULL
BEGIN
    SET @message = CONCAT(N'batch ', @batch_id, N' is sealed: no job can be added to it');
    THROW 58021, @message, 1;
END;
GO
