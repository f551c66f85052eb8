-- Returns what a worker of the queue had at most of each resource in the last day (register_worker; as long as rows of
-- workers are kept): name, most. Without memory if a worker has no limit of it. Workers call this when a job needs more
-- than they have, for its error. Reads by NOLOCK: it neither blocks nor is blocked.
CREATE OR ALTER PROCEDURE [$(schema)].[most_resources]
    @queue nvarchar(129)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

SELECT r.[key] AS name, MAX(TRY_CAST(r.[value] AS bigint)) AS most
FROM [$(schema)].[workers] AS w WITH (NOLOCK)
CROSS APPLY OPENJSON(CASE WHEN ISJSON(w.resources) = 1 THEN w.resources END) AS r
WHERE w.queue_id = @queue_id AND TRY_CAST(r.[value] AS bigint) > 0
    AND (r.[key] <> N'memory'
         OR NOT EXISTS (SELECT 1 FROM [$(schema)].[workers] AS u WITH (NOLOCK)
                        WHERE u.queue_id = @queue_id AND u.resources NOT LIKE '%"memory"%'))
GROUP BY r.[key]
OPTION (MAXDOP 1);
GO
