-- Returns the errors of jobs of a queue, for a program that groups similar errors. With @state dead, returns the last
-- @max dead jobs, the newest first. With @state scheduled, reads the @max jobs that are due first, and returns those
-- that have an error (waiting for a retry, or snoozed with a reason). Locked jobs are left out (READPAST), so the call
-- neither blocks nor is blocked. It costs a seek, and a row per job. Result: job_id, kind, finished_at (of its last
-- run), error (the first 400 characters). Later versions add columns at the end.
CREATE OR ALTER PROCEDURE [$(schema)].[list_errors]
    @queue nvarchar(129),
    @state varchar(32) = 'dead',
    @max   int         = 10000
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @state IS NULL OR @state NOT IN ('dead', 'scheduled')
    EXEC [$(schema)].[refuse] N'state', @state, N'dead or scheduled';
IF @max IS NULL OR @max < 1 OR @max > 100000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 100000';

-- Reads the ids from the index (NOLOCK), and then copies the rows, one lock at a time. The rows are not read by NOLOCK:
-- if a long error is stored outside its row and moves meanwhile, NOLOCK fails with error 7105, which closes the
-- connection.
DECLARE @page TABLE (place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED, job_id bigint NOT NULL);
DECLARE @rows TABLE (place int NOT NULL PRIMARY KEY CLUSTERED, job_id bigint NOT NULL,
    kind varchar(64) COLLATE Latin1_General_100_BIN2 NULL, finished_at datetime2(3) NOT NULL, error nvarchar(800) NULL);
DECLARE @number tinyint = CASE WHEN @state = 'dead' THEN 4 ELSE 1 END;
IF @number = 4
    INSERT @page (job_id)
    SELECT TOP (@max) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_finished (queue_id, state)))
    WHERE j.queue_id = @queue_id AND j.state = 4 AND j.ended = 1
    ORDER BY j.finished_at DESC, j.job_id DESC
    OPTION (MAXDOP 1);
ELSE
    INSERT @page (job_id)
    SELECT TOP (@max) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_scheduled (queue_id)))
    WHERE j.queue_id = @queue_id AND j.state = 1
    ORDER BY j.due_at, j.job_id
    OPTION (MAXDOP 1);
-- Does not end with the first half of a surrogate pair (0xD800 to 0xDBFF, the second byte first).
INSERT @rows (place, job_id, kind, finished_at, error)
SELECT p.place, j.job_id, j.kind, ISNULL(j.finished_at, j.enqueued_at),
       SUBSTRING(j.error, 1, CASE WHEN SUBSTRING(CAST(j.error AS varbinary(8000)), 800, 1) BETWEEN 0xD8 AND 0xDB
           THEN 399 ELSE 400 END)
FROM @page AS p
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = p.job_id
WHERE j.state = @number AND j.queue_id = @queue_id AND (@number = 4 OR j.error IS NOT NULL)
OPTION (MAXDOP 1);

SELECT job_id, kind, finished_at, error FROM @rows ORDER BY place OPTION (MAXDOP 1);
GO
