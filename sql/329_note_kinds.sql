-- Adds counts of ended runs to the current hour of kind_history. Workers call this about once a minute, and when they
-- stop, with what they have counted since the last call: up to 1,000 rows. They count in the hour in which they are
-- reported. An hour has at most 50 named kinds; further ones count together. Result: noted. It is 0 if nothing was
-- written, because other sessions kept the application lock <schema>.kinds.<queue_id> for a tenth of a second. Then
-- call again later with the same rows. After an error, forget them: if the call had an effect, they would count twice.
CREATE OR ALTER PROCEDURE [$(schema)].[note_kinds]
    @queue nvarchar(129),
    @kinds [$(schema)].[kind_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @epoch datetime2(0) = '20000101', @hour datetime2(0), @queue_id int, @resource nvarchar(255), @result int,
    @named int;
DECLARE @known TABLE (kind varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @news TABLE (kind varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL, measure tinyint NOT NULL,
    bucket tinyint NOT NULL, jobs bigint NOT NULL, total float NOT NULL, largest bigint NOT NULL,
    PRIMARY KEY CLUSTERED (kind, measure, bucket));

SET LOCK_TIMEOUT 100;
-- Only the second look tells a queue that is gone from one whose deletion may be rolled back.
SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    SELECT @queue_id = queue_id
    FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_name (name)))
    WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF (SELECT COUNT(*) FROM @kinds) > 1000
    THROW 58003, N'kinds must have at most 1,000 rows', 1;
IF EXISTS (SELECT 1
    FROM @kinds
    WHERE measure NOT BETWEEN 1 AND 5 OR bucket > 101 OR jobs NOT BETWEEN 1 AND 1000000000000
        OR total < 0 OR total > CAST(jobs AS float) * 1000000000000000 OR largest NOT BETWEEN 0 AND 1000000000000000)
    THROW 58003,
        N'measure must be 1 to 5, bucket 0 to 101, jobs 1 to 1E12, total 0 to 1E15 a job, largest 0 to 1E15', 1;
SET @hour = DATEADD(HOUR, DATEDIFF(HOUR, @epoch, SYSUTCDATETIME()), @epoch);
SET @resource = CONCAT(N'$(schema).kinds.', @queue_id);
BEGIN TRANSACTION;
EXEC @result = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction',
    @LockTimeout = 100;
IF @result < 0
BEGIN
    COMMIT TRANSACTION;
    SELECT CAST(0 AS bit) AS noted;
    RETURN;
END;

-- The application lock excludes other sessions that write this hour.
INSERT @known (kind)
SELECT DISTINCT h.kind
FROM [$(schema)].[kind_history] AS h WITH (NOLOCK, FORCESEEK (kind_history_pk (queue_id, hour)))
WHERE h.queue_id = @queue_id AND h.hour = @hour AND h.kind NOT IN ('', ' other kinds')
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @named = @@ROWCOUNT;
INSERT @known (kind)
SELECT TOP (CASE WHEN @named < 50 THEN 50 - @named ELSE 0 END) k.kind
FROM @kinds AS k
WHERE k.kind NOT IN ('', ' other kinds') AND NOT EXISTS (SELECT 1 FROM @known AS n WHERE n.kind = k.kind)
GROUP BY k.kind
ORDER BY SUM(k.jobs) DESC, k.kind;
INSERT @news (kind, measure, bucket, jobs, total, largest)
SELECT c.kind, c.measure, c.bucket, SUM(c.jobs), SUM(c.total), MAX(c.largest)
FROM (SELECT CASE WHEN k.kind = '' OR n.kind IS NOT NULL THEN k.kind ELSE ' other kinds' END AS kind, k.measure,
             k.bucket, k.jobs, k.total, k.largest
      FROM @kinds AS k
      LEFT JOIN @known AS n ON n.kind = k.kind) AS c
GROUP BY c.kind, c.measure, c.bucket;

UPDATE h
SET jobs = h.jobs + n.jobs, total = h.total + n.total,
    largest = CASE WHEN h.largest > n.largest THEN h.largest ELSE n.largest END
FROM @news AS n
INNER LOOP JOIN [$(schema)].[kind_history] AS h WITH (ROWLOCK, FORCESEEK, INDEX (kind_history_pk))
    ON h.queue_id = @queue_id AND h.hour = @hour AND h.kind = n.kind AND h.measure = n.measure AND h.bucket = n.bucket
OPTION (MAXDOP 1, KEEPFIXED PLAN);
INSERT [$(schema)].[kind_history] (queue_id, hour, kind, measure, bucket, jobs, total, largest)
SELECT @queue_id, @hour, n.kind, n.measure, n.bucket, n.jobs, n.total, n.largest
FROM @news AS n
WHERE NOT EXISTS (SELECT 1
    FROM [$(schema)].[kind_history] AS h
        WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (kind_history_pk (queue_id, hour, kind, measure, bucket)))
    WHERE h.queue_id = @queue_id AND h.hour = @hour AND h.kind = n.kind AND h.measure = n.measure
        AND h.bucket = n.bucket)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- Again, because the queue may have been deleted: delete_empty_queue deletes its row first and these rows afterwards.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
    WHERE queue_id = @queue_id)
    SET @queue_id = (SELECT queue_id
        FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                     WHERE queue_id = @queue_id);
IF @queue_id IS NULL
BEGIN
    ROLLBACK TRANSACTION;
    EXEC [$(schema)].[unknown_queue] @queue;
END;
COMMIT TRANSACTION;
SELECT CAST(1 AS bit) AS noted;
GO
