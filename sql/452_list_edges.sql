-- Lists what a job waits for, or has waited for (its parents), and the jobs that wait for it, or have waited (its
-- children): up to @max of each, the open ones first. Reads by NOLOCK. Result: is_parent (1: of @job_id), job_id, on_dead
-- (hold, cancel or run), waits (1: the child waits for the parent), ended (how the parent ended: done, dead or cancelled;
-- NULL: not yet, or the child no longer waited), queue, state (both NULL: the job's row is gone), kind.
CREATE OR ALTER PROCEDURE [$(schema)].[list_edges]
    @job_id bigint,
    @max    int = 1000
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @held bit;
IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';
SELECT @held = held FROM [$(schema)].[jobs] WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) WHERE job_id = @job_id
OPTION (MAXDOP 1);

SELECT e.is_parent, e.job_id, CASE e.on_dead WHEN 1 THEN 'cancel' WHEN 2 THEN 'run' ELSE 'hold' END AS on_dead,
    CAST(CASE WHEN e.state = 0 AND CASE e.is_parent WHEN 1 THEN @held ELSE j.held END = 1 THEN 1 ELSE 0 END AS bit) AS waits,
    CASE e.state WHEN 3 THEN 'done' WHEN 4 THEN 'dead' WHEN 5 THEN 'cancelled' END AS ended, q.name AS queue,
    CASE j.state WHEN 0 THEN 'ready' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'claimed' WHEN 3 THEN 'done' WHEN 4 THEN 'dead'
        WHEN 5 THEN 'cancelled' WHEN 6 THEN 'waiting' END AS state, j.kind
FROM (SELECT p.is_parent, p.job_id, p.on_dead, p.state
      FROM (SELECT TOP (@max) CAST(1 AS bit) AS is_parent, parent_id AS job_id, on_dead, state
            FROM [$(schema)].[edges] WITH (NOLOCK, FORCESEEK (edges_child (child_id)))
            WHERE child_id = @job_id
            ORDER BY state, parent_id) AS p
      UNION ALL
      SELECT c.is_parent, c.job_id, c.on_dead, c.state
      FROM (SELECT TOP (@max) CAST(0 AS bit) AS is_parent, child_id AS job_id, on_dead, state
            FROM [$(schema)].[edges] WITH (NOLOCK, FORCESEEK (edges_pk (parent_id)))
            WHERE parent_id = @job_id
            ORDER BY state, child_id) AS c) AS e
LEFT LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = e.job_id
LEFT LOOP JOIN [$(schema)].[queues] AS q WITH (NOLOCK, FORCESEEK (queues_pk (queue_id))) ON q.queue_id = j.queue_id
ORDER BY e.is_parent DESC, e.state, e.job_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
