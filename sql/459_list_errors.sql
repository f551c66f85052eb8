-- The errors of the jobs of a queue that failed, for a program that puts together those that are alike.
-- @state: dead: of the newest @max of them, the newest first. scheduled: of the @max jobs that are due first, those
-- that have an error: they wait for another attempt, or were put off with a reason (a snooze).
-- It neither waits nor holds anybody up (READPAST): a seek, and a row for each job. Jobs that are locked at the moment
-- are left out.
-- Result: job_id, kind, finished_at (when its last run ended), error (its first 400 characters). Later versions add
-- columns at the end.
CREATE OR ALTER PROCEDURE [$(schema)].[list_errors]
    @queue nvarchar(129),
    @state varchar(32) = 'dead',
    @max   int         = 10000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @state IS NULL OR @state NOT IN ('dead', 'scheduled')
    EXEC [$(schema)].[refuse] N'state', @state, N'dead or scheduled';
IF @max IS NULL OR @max < 1 OR @max > 100000
    THROW 58003, N'max must be 1 to 100000', 1;

-- First the ids, from entries of the index alone (NOLOCK); then a copy of the rows, one lock at a time. The rows not by
-- NOLOCK: a long error may stand outside of its row, and where that goes meanwhile, NOLOCK ends in error 7105, which
-- closes the connection.
DECLARE @page TABLE (place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED, job_id bigint NOT NULL);
DECLARE @rows TABLE
(
    place       int          NOT NULL PRIMARY KEY CLUSTERED,
    job_id      bigint       NOT NULL,
    kind        varchar(64)  COLLATE Latin1_General_100_BIN2 NULL,
    finished_at datetime2(3) NOT NULL,
    error       nvarchar(800) NULL
);
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
-- Most collations count a character beyond the first 65,536 as two: its first half (0xD800 to 0xDBFF, the second byte
-- first) must not be the end.
INSERT @rows (place, job_id, kind, finished_at, error)
SELECT p.place, j.job_id, j.kind, ISNULL(j.finished_at, j.enqueued_at),
       SUBSTRING(j.error, 1, CASE
       WHEN SUBSTRING(CAST(j.error AS varbinary(8000)), 800, 1) BETWEEN 0xD8 AND 0xDB THEN 399 ELSE 400 END)
FROM @page AS p
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = p.job_id
WHERE j.state = @number AND j.queue_id = @queue_id AND (@number = 4 OR j.error IS NOT NULL)
OPTION (MAXDOP 1);

SELECT job_id, kind, finished_at, error FROM @rows ORDER BY place OPTION (MAXDOP 1);
GO
