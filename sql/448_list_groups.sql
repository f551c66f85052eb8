-- Lists the groups of a queue that have waiting jobs, jobs with a turn or a weight, up to @max, in the order of their keys
-- behind @after. Reads by NOLOCK. Result: group_key, weight (claim_fair), in_turn (jobs with a turn),
-- waiting (jobs that wait in the group; @most is a minimum).
CREATE OR ALTER PROCEDURE [$(schema)].[list_groups]
    @queue nvarchar(129),
    @after nvarchar(129) = N'',
    @max   int           = 1000,
    @most  bigint        = 1000  -- how many waiting jobs of each group are counted
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';
IF @most IS NULL OR @most < 1
    EXEC [$(schema)].[refuse] N'most', @most, N'1 or more';

SELECT k.group_key, ISNULL(w.weight, 1) AS weight, ISNULL(g.in_turn, 0) AS in_turn, c.waiting
FROM (SELECT TOP (@max) u.group_key
      FROM (SELECT a.group_key
            FROM (SELECT TOP (@max) group_key FROM [$(schema)].[groups] WITH (NOLOCK)
                  WHERE queue_id = @queue_id AND group_key > @after ORDER BY group_key) AS a
            UNION
            SELECT b.group_key
            FROM (SELECT TOP (@max) group_key FROM [$(schema)].[group_weights] WITH (NOLOCK)
                  WHERE queue_id = @queue_id AND group_key > @after ORDER BY group_key) AS b) AS u
      ORDER BY u.group_key) AS k
LEFT LOOP JOIN [$(schema)].[groups] AS g WITH (NOLOCK, FORCESEEK (groups_pk (queue_id, group_key)))
    ON g.queue_id = @queue_id AND g.group_key = k.group_key
LEFT LOOP JOIN [$(schema)].[group_weights] AS w WITH (NOLOCK, FORCESEEK (group_weights_pk (queue_id, group_key)))
    ON w.queue_id = @queue_id AND w.group_key = k.group_key
CROSS APPLY (SELECT COUNT_BIG(*) AS waiting
             FROM (SELECT TOP (@most) j.job_id
                   FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_waiting (queue_id, group_key)))
                   WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                       AND ISNULL(j.held, 0) = 0 AND j.job_id >= ISNULL(g.from_id, 0)) AS h) AS c
ORDER BY k.group_key
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
