-- Returns the largest amount of each resource that any worker of the queue has had, not necessarily the same worker (see
-- register_worker): name, most. Rows of stopped workers are kept for a day, so this covers the last day. Memory is left
-- out if any worker has no memory limit. Workers call this when a job needs more than they have, for its error. Reads by
-- NOLOCK: it neither blocks nor is blocked.
CREATE OR ALTER PROCEDURE [$(schema)].[most_resources]
    @queue nvarchar(129)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int, @is_unlimited bit = 0;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

SELECT TOP (1) @is_unlimited = 1
FROM [$(schema)].[workers] WITH (NOLOCK)
WHERE queue_id = @queue_id AND resources NOT LIKE '%"memory"%'
OPTION (MAXDOP 1);
SELECT r.[key] AS name, MAX(TRY_CAST(r.[value] AS bigint)) AS most
FROM [$(schema)].[workers] AS w WITH (NOLOCK)
CROSS APPLY OPENJSON(CASE WHEN ISJSON(w.resources) = 1 THEN w.resources END) AS r
WHERE w.queue_id = @queue_id AND TRY_CAST(r.[value] AS bigint) > 0 AND (r.[key] <> N'memory' OR @is_unlimited = 0)
GROUP BY r.[key]
OPTION (MAXDOP 1);
GO
