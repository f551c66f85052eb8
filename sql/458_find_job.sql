-- Returns the queue of a job, even if the job is archived. Reads by NOLOCK. Result: queue (NULL: no such job).
CREATE OR ALTER PROCEDURE [$(schema)].[find_job]
    @job_id bigint
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[jobs] WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) WHERE job_id = @job_id
    OPTION (MAXDOP 1);
IF @queue_id IS NULL
    SELECT @queue_id = queue_id FROM [$(schema)].[archive] WITH (NOLOCK, FORCESEEK (archive_pk (job_id)))
        WHERE job_id = @job_id OPTION (MAXDOP 1);

SELECT (SELECT q.name FROM [$(schema)].[queues] AS q WITH (NOLOCK) WHERE q.queue_id = @queue_id) AS queue;
GO
