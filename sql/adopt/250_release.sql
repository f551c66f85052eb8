--@ before
UPDATE j
SET state = 0, attempt = j.attempt - 1
--@ put
-- A row that was claimed for the first time, and has saved nothing, goes back: it is as the claim found it, and the job is gone.
DECLARE @returned TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, /*{back_columns}*/);
BEGIN TRANSACTION;
DELETE j
OUTPUT deleted.job_id, /*{back_outputs}*/
INTO @returned (job_id, /*{back_names}*/)
FROM @jobs AS r
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = r.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = r.fence AND j.fence = 1 AND j.cancelling IS NULL AND ISNULL(j.checkpointed, 0) = 0
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT > 0
    UPDATE t
    SET /*{back_sets}*/
    FROM @returned AS b
    INNER LOOP JOIN /*{table}*/ AS t WITH (ROWLOCK, /*{key_hint}*/) ON /*{key_of_returned}*/
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;

--@ in place of
SET @released = @@ROWCOUNT;
SET @first_ready = (SELECT MIN(job_id) FROM @found);
--@ put
SET @released = @@ROWCOUNT + (SELECT COUNT(*) FROM @returned);
SET @first_ready = (SELECT MIN(job_id) FROM @found);
INSERT @found (job_id) SELECT job_id FROM @returned;
