-- For advance_groups, and for operators' procedures before they lock waiting jobs: no other session gives turns away in this queue until the
-- transaction ends. Only in a transaction. @granted: 0, somebody else had the lock for @wait_ms (-1: it waits for as long as it takes, like for the jobs
-- themselves, and fails where that would be for ever).
CREATE OR ALTER PROCEDURE [$(schema)].[lock_groups]
    @queue_id int,
    @wait_ms  int,
    @granted  bit OUTPUT
AS
SET NOCOUNT ON;
DECLARE @resource nvarchar(255) = CONCAT(N'$(schema).groups.', @queue_id), @result int;

EXEC @result = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = @wait_ms;
SET @granted = CASE WHEN @result >= 0 THEN 1 ELSE 0 END;
IF @granted = 0 AND @wait_ms < 0
    THROW 58013, N'another session changes groups of this queue in a transaction that waits for this one; run it again', 1;
GO
