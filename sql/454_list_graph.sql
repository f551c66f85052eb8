-- Lists the graph of a job, or of a batch: the job, or the batch's unfinished jobs, and all jobs that are connected with
-- them by edges in either direction, up to @max, the nearest ones. Reads by NOLOCK. Result: first the jobs, with parent_id
-- NULL, then the edges between them: parent_id, job_id (of an edge: the child), queue (NULL: the job's row is gone), state
-- (if the row is gone: how the job ended), kind, is_partial (1: there are more jobs).
CREATE OR ALTER PROCEDURE [$(schema)].[list_graph]
    @job_id   bigint = NULL,
    @batch_id bigint = NULL,
    @max      int    = 1000
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @step int = 0, @jobs_found int, @added int, @near_found int, @is_partial bit = 0;
DECLARE @jobs TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, step int NOT NULL);
DECLARE @near TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';

INSERT @jobs (job_id, step)
SELECT f.job_id, 0
FROM (SELECT @job_id AS job_id WHERE @job_id IS NOT NULL
      UNION
      SELECT b.job_id
      FROM (SELECT TOP (@max) job_id
            FROM [$(schema)].[jobs] WITH (NOLOCK, FORCESEEK (jobs_batch (batch_id)))
            WHERE batch_id = @batch_id AND batch_id IS NOT NULL AND ended = 0 AND @job_id IS NULL
            ORDER BY job_id) AS b) AS f
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SELECT @jobs_found = @@ROWCOUNT, @added = @@ROWCOUNT;
WHILE @added > 0
BEGIN
    INSERT @near (job_id)
    SELECT DISTINCT x.job_id
    FROM (SELECT e.parent_id AS job_id
          FROM @jobs AS n
          CROSS APPLY (SELECT TOP (@max) parent_id FROM [$(schema)].[edges] WITH (NOLOCK, FORCESEEK (edges_child (child_id)))
                       WHERE child_id = n.job_id ORDER BY state, parent_id) AS e
          WHERE n.step = @step
          UNION ALL
          SELECT e.child_id
          FROM @jobs AS n
          CROSS APPLY (SELECT TOP (@max) child_id FROM [$(schema)].[edges] WITH (NOLOCK, FORCESEEK (edges_pk (parent_id)))
                       WHERE parent_id = n.job_id ORDER BY state, child_id) AS e
          WHERE n.step = @step) AS x
    WHERE NOT EXISTS (SELECT 1 FROM @jobs AS k WHERE k.job_id = x.job_id)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SELECT @near_found = @@ROWCOUNT, @step = @step + 1;
    INSERT @jobs (job_id, step)
    SELECT TOP (@max - @jobs_found) n.job_id, @step FROM @near AS n ORDER BY n.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @added = @@ROWCOUNT;
    SET @jobs_found = @jobs_found + @added;
    IF @added < @near_found
        SET @is_partial = 1;
    DELETE @near;
END;

SELECT CAST(NULL AS bigint) AS parent_id, n.job_id, q.name AS queue,
    CASE ISNULL(j.state, (SELECT MAX(p.state) FROM [$(schema)].[edges] AS p WITH (NOLOCK, FORCESEEK (edges_pk (parent_id)))
                          WHERE p.parent_id = n.job_id))
        WHEN 0 THEN CASE WHEN j.state = 0 THEN 'ready' END WHEN 1 THEN 'scheduled' WHEN 2 THEN 'claimed' WHEN 3 THEN 'done'
        WHEN 4 THEN 'dead' WHEN 5 THEN 'cancelled' WHEN 6 THEN 'waiting' END AS state, j.kind, @is_partial AS is_partial
FROM @jobs AS n
LEFT LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = n.job_id
LEFT LOOP JOIN [$(schema)].[queues] AS q WITH (NOLOCK, FORCESEEK (queues_pk (queue_id))) ON q.queue_id = j.queue_id
UNION ALL
SELECT e.parent_id, e.child_id, NULL, NULL, NULL, @is_partial
FROM @jobs AS n
INNER LOOP JOIN [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_pk (parent_id))) ON e.parent_id = n.job_id
WHERE EXISTS (SELECT 1 FROM @jobs AS k WHERE k.job_id = e.child_id)
ORDER BY parent_id, job_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
