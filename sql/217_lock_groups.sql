-- Keeps other sessions from giving turns in this queue until the transaction ends, by an application lock. Called by
-- advance_groups, and by operators' procedures before they lock waiting jobs. @granted is 0 if another session kept the
-- lock for @wait_ms. Without @wait_ms (operators), the call waits for LOCK_TIMEOUT and then fails, and also keeps
-- claims from taking waiting jobs (claim_runs, which shares a second lock).
CREATE OR ALTER PROCEDURE [$(schema)].[lock_groups]
    @queue_id int,
    @wait_ms  int,
    @granted  bit OUTPUT
AS
SET NOCOUNT ON;
DECLARE @resource nvarchar(255) = CONCAT(N'$(schema).groups.', @queue_id),
    @timeout int = ISNULL(@wait_ms, @@LOCK_TIMEOUT), @result int;

EXEC @result = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction',
    @LockTimeout = @timeout;
IF @result >= 0 AND @wait_ms IS NULL
BEGIN
    SET @resource = CONCAT(N'$(schema).runs.', @queue_id);
    EXEC @result = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction',
        @LockTimeout = @timeout;
END;
SET @granted = CASE WHEN @result >= 0 THEN 1 ELSE 0 END;
IF @granted = 0 AND @wait_ms IS NULL
    THROW 58013, N'another session is changing groups of this queue; run the call again when it has finished', 1;
GO
