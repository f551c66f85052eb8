-- Completes a batch whose jobs have all finished, and enqueues its follow-up with the header readpast-batch (batch_id,
-- done, dead, cancelled). Called by note_ends and seal_batch, in their transaction. The caller has locked the batch's
-- row of batch_counts, so that a batch is completed only once.
CREATE OR ALTER PROCEDURE [$(schema)].[end_batch]
    @batch_id bigint
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @job_id bigint, @header nvarchar(200);

IF EXISTS (SELECT 1 FROM [$(schema)].[batches] WITH (ROWLOCK, READCOMMITTEDLOCK)
    WHERE batch_id = @batch_id AND payload IS NOT NULL)
    SET @job_id = NEXT VALUE FOR [$(schema)].[job_ids];
UPDATE [$(schema)].[batch_counts] WITH (ROWLOCK)
SET ended_at = @now, follow_up_id = @job_id
WHERE batch_id = @batch_id;
IF @job_id IS NULL
    RETURN;

SELECT @header = CONCAT(N'{"readpast-batch":{"batch_id":', batch_id, N',"done":', done, N',"dead":', dead,
    N',"cancelled":', cancelled, N'}')
FROM [$(schema)].[batch_counts] WITH (ROWLOCK)
WHERE batch_id = @batch_id;
INSERT [$(schema)].[jobs] WITH (ROWLOCK)
    (job_id, queue_id, state, priority, max_attempts, enqueued_at, due_at, correlation_id, kind, payload_utf16,
     payload, time_limit_ms, headers, batch_id, needs)
SELECT @job_id, b.queue_id, 0, b.priority, b.max_attempts, @now,
       @now, b.correlation_id, b.kind, b.payload_utf16, b.payload, b.time_limit_ms,
           -- Puts the header in front of the follow-up's own headers, or replaces an empty object.
       CASE WHEN b.headers IS NULL OR b.headers NOT LIKE N'%"%' THEN @header + N'}'
            ELSE @header + N',' + STUFF(b.headers, 1, 1, N'') END,
       b.parent_id, b.needs
FROM [$(schema)].[batches] AS b WITH (ROWLOCK, READCOMMITTEDLOCK)
WHERE b.batch_id = @batch_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
