-- Enqueues many jobs in one round trip; they get ascending ids in the order of their ordinals.
-- Takes part in the caller's transaction. Result (unless @report = 0, for triggers): ordinal, job_id, duplicate; a duplicate's
-- job_id is that of the unfinished job, or of the earlier one in the same batch, that has its key.
CREATE OR ALTER PROCEDURE [$(schema)].[enqueue_batch]
    @queue  nvarchar(128),
    @jobs   [$(schema)].[enqueue_list] READONLY,
    @report bit = 1
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @lifo bit, @message nvarchar(2048);
DECLARE @duplicates TABLE (ordinal int NOT NULL PRIMARY KEY CLUSTERED, job_id bigint NULL, first_ordinal int NULL);
DECLARE @added TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @numbered TABLE (ordinal int NOT NULL PRIMARY KEY CLUSTERED, job_id bigint NOT NULL);

SELECT @queue_id = queue_id, @lifo = CASE WHEN claim_order = 'lifo' THEN 1 ELSE 0 END
FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;
IF EXISTS (SELECT 1 FROM @jobs WHERE (payload IS NULL AND text IS NULL) OR (payload IS NOT NULL AND text IS NOT NULL))
    THROW 58003, N'a job needs either a payload or a text', 1;
IF EXISTS (SELECT 1 FROM @jobs WHERE delay_ms < 0 OR delay_ms > 315360000000 OR (delay_ms IS NOT NULL AND due_at IS NOT NULL))
    THROW 58003, N'delay_ms must be between 0 and 315360000000 (ten years), and not stand beside due_at', 1;
IF EXISTS (SELECT 1 FROM @jobs WHERE max_attempts < 1)
    THROW 58003, N'max_attempts must be 1 or more', 1;

BEGIN TRANSACTION;
IF EXISTS (SELECT 1 FROM @jobs WHERE dedup_key IS NOT NULL)
BEGIN
    -- HOLDLOCK keeps the absence of each key until the commit, so that of two sessions with one key the second finds the first's job.
    INSERT @duplicates (ordinal, job_id)
    SELECT n.ordinal, j.job_id
    FROM @jobs AS n
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (UPDLOCK, HOLDLOCK, ROWLOCK, INDEX (jobs_dedup))
        ON j.queue_id = @queue_id AND j.dedup_key = n.dedup_key AND j.dedup_key IS NOT NULL AND j.state < 3
    WHERE n.dedup_key IS NOT NULL
    OPTION (MAXDOP 1);

    INSERT @duplicates (ordinal, first_ordinal)
    SELECT n.ordinal, f.first_ordinal
    FROM @jobs AS n
    INNER JOIN (SELECT dedup_key, MIN(ordinal) AS first_ordinal FROM @jobs WHERE dedup_key IS NOT NULL GROUP BY dedup_key) AS f
        ON f.dedup_key = n.dedup_key
    WHERE n.ordinal > f.first_ordinal AND NOT EXISTS (SELECT 1 FROM @duplicates AS d WHERE d.ordinal = n.ordinal);
END;

-- With ORDER BY, INSERT ... SELECT gives out the identity values in that order.
INSERT [$(schema)].[jobs]
    (queue_id, state, lifo, priority, max_attempts, enqueued_at, due_at, dedup_key, correlation_id, payload_utf16, payload)
OUTPUT inserted.job_id INTO @added (job_id)
SELECT @queue_id,
       CASE WHEN n.due_at > @now OR n.delay_ms > 0 THEN 1 ELSE 0 END,
       @lifo,
       ISNULL(n.priority, 0),
       n.max_attempts,
       @now,
       -- DATEADD counts in int: whole seconds and the rest.
       COALESCE(n.due_at, DATEADD(MILLISECOND, n.delay_ms % 1000, DATEADD(SECOND, n.delay_ms / 1000, @now)), @now),
       n.dedup_key,
       n.correlation_id,
       CASE WHEN n.text IS NULL THEN 0 ELSE 1 END,
       ISNULL(n.payload, CAST(n.text AS varbinary(max)))
FROM @jobs AS n
WHERE NOT EXISTS (SELECT 1 FROM @duplicates AS d WHERE d.ordinal = n.ordinal)
ORDER BY n.ordinal
OPTION (MAXDOP 1);
COMMIT TRANSACTION;

IF @report = 0
    RETURN 0;

-- The n-th new ordinal has the n-th new id.
WITH new_jobs AS
(
    SELECT n.ordinal, ROW_NUMBER() OVER (ORDER BY n.ordinal) AS position
    FROM @jobs AS n
    WHERE NOT EXISTS (SELECT 1 FROM @duplicates AS d WHERE d.ordinal = n.ordinal)
),
new_ids AS
(
    SELECT a.job_id, ROW_NUMBER() OVER (ORDER BY a.job_id) AS position FROM @added AS a
)
INSERT @numbered (ordinal, job_id)
SELECT n.ordinal, i.job_id FROM new_jobs AS n INNER JOIN new_ids AS i ON i.position = n.position;

SELECT n.ordinal, n.job_id, CAST(0 AS bit) AS duplicate
FROM @numbered AS n
UNION ALL
SELECT d.ordinal, COALESCE(d.job_id, f.job_id), CAST(1 AS bit)
FROM @duplicates AS d
LEFT JOIN @numbered AS f ON f.ordinal = d.first_ordinal;
GO
