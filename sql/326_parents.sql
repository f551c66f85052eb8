-- Returns how the parents of a job ended, for the job's handler. Outputs are there only of queues that keep them
-- (policies annotate and archive), and of up to 64 MiB together, as a worker's memory is limited. Result, in the order of
-- the ids: job_id, state (done, dead or cancelled), error, output, kind (these three NULL: the parent's row is gone, or
-- has ended otherwise since then).
CREATE OR ALTER PROCEDURE [$(schema)].[parents]
    @job_id bigint
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @bytes bigint, @message nvarchar(2048);

SELECT @bytes = SUM(ISNULL(DATALENGTH(j.output), 0) + ISNULL(DATALENGTH(a.output), 0))
FROM [$(schema)].[edges] AS e WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (edges_child (child_id)))
LEFT LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = e.parent_id AND j.state = e.state
LEFT LOOP JOIN [$(schema)].[archive] AS a WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id)))
    ON a.job_id = e.parent_id AND e.state = 3
WHERE e.child_id = @job_id AND e.state > 0
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @bytes > 67108864
BEGIN
    SET @message = CONCAT(N'the outputs of the parents of job ', @job_id, N' are ', @bytes,
        N' bytes; they must be at most 67108864 (64 MiB)');
    THROW 58003, @message, 1;
END;
SELECT e.parent_id AS job_id, CASE e.state WHEN 3 THEN 'done' WHEN 4 THEN 'dead' ELSE 'cancelled' END AS state, j.error,
    ISNULL(j.output, a.output) AS output, ISNULL(j.kind, a.kind) AS kind
FROM [$(schema)].[edges] AS e WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (edges_child (child_id)))
LEFT LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = e.parent_id AND j.state = e.state
LEFT LOOP JOIN [$(schema)].[archive] AS a WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id)))
    ON a.job_id = e.parent_id AND e.state = 3
WHERE e.child_id = @job_id AND e.state > 0
ORDER BY e.parent_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
