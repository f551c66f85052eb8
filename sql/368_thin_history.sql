-- For expire: merges rows older than a day into rows of ten minutes, up to an hour per call, and deletes up to 1,000
-- rows older than 90 days, and as many of kind_history older than seven days. Counts and times are added up. For the
-- depth the maximum is kept, because charts show backlogs. Each ten minutes are merged in a transaction of their own, so
-- that an interrupted call leaves the rest to the next call.
CREATE OR ALTER PROCEDURE [$(schema)].[thin_history]
    @queue_id int
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @epoch datetime2(0) = '20000101', @before datetime2(0) = DATEADD(DAY, -1, SYSUTCDATETIME()), @at datetime2(0),
    @done int = 0, @oldest datetime2(0) = DATEADD(DAY, -90, SYSUTCDATETIME()),
    @last_week datetime2(0) = DATEADD(HOUR, -169, SYSUTCDATETIME()),
    @times varchar(1400), @bucket varchar(3), @jobs bigint;
DECLARE @old TABLE (at datetime2(0) NOT NULL PRIMARY KEY CLUSTERED, ready bigint NOT NULL, scheduled bigint NOT NULL,
    waiting bigint NOT NULL, claimed bigint NOT NULL, dead bigint NOT NULL, cancelled bigint NOT NULL,
    workers bigint NOT NULL, oldest_ready_ms bigint NULL, done bigint NOT NULL, failed bigint NOT NULL,
    died bigint NOT NULL, times varchar(1400) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @counts TABLE (bucket varchar(3) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    jobs bigint NOT NULL);

-- A lock timeout would roll back a caller's transaction.
IF @@TRANCOUNT > 0
    RETURN;
-- Rounds the time down to ten minutes.
SET @before = DATEADD(MINUTE, DATEDIFF(MINUTE, @epoch, @before) / 10 * 10, @epoch);
SET LOCK_TIMEOUT 100;
BEGIN TRY
    WHILE @done < 6
    BEGIN
        SET @done = @done + 1;
        SET @at = (SELECT TOP (1) h.at FROM [$(schema)].[history] AS h WITH (NOLOCK, INDEX (history_minutes))
                   WHERE h.queue_id = @queue_id AND h.minutes < 10 AND h.at < @before
                   ORDER BY h.at);
        IF @at IS NULL
            BREAK;
        SET @at = DATEADD(MINUTE, DATEDIFF(MINUTE, @epoch, @at) / 10 * 10, @epoch);

        DELETE @old;
        DELETE @counts;
        BEGIN TRANSACTION;
        DELETE h
        OUTPUT deleted.at, deleted.ready, deleted.scheduled, deleted.waiting, deleted.claimed, deleted.dead,
            deleted.cancelled, deleted.workers, deleted.oldest_ready_ms, deleted.done, deleted.failed, deleted.died,
            deleted.times
        INTO @old (at, ready, scheduled, waiting, claimed, dead, cancelled, workers, oldest_ready_ms, done, failed,
            died, times)
        FROM [$(schema)].[history] AS h WITH (ROWLOCK, FORCESEEK, INDEX (history_pk))
        WHERE h.queue_id = @queue_id AND h.at >= @at AND h.at < DATEADD(MINUTE, 10, @at)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);

        INSERT @counts (bucket, jobs)
        SELECT j.[key], SUM(CAST(j.value AS bigint))
            FROM @old AS o CROSS APPLY OPENJSON(CASE WHEN ISJSON(o.times) = 1 THEN o.times END) AS j
        GROUP BY j.[key];
        SET @times = NULL;
        SET @bucket = '';
        WHILE 1 = 1
        BEGIN
            SELECT TOP (1) @bucket = bucket, @jobs = jobs FROM @counts WHERE bucket > @bucket ORDER BY bucket;
            IF @@ROWCOUNT = 0
                BREAK;
            SET @times = CONCAT(@times + ',', '"', @bucket, '":', @jobs);
        END;

        INSERT [$(schema)].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, cancelled,
                                      workers, oldest_ready_ms, done, failed, died, times)
        SELECT @queue_id, @at, 10, MAX(ready), MAX(scheduled), MAX(waiting), MAX(claimed), MAX(dead), MAX(cancelled),
               MAX(workers), MAX(oldest_ready_ms), SUM(done), SUM(failed), SUM(died), '{' + @times + '}'
        FROM @old
        HAVING COUNT(*) > 0;  -- another session may have been faster
        COMMIT TRANSACTION;
    END;

    DELETE TOP (1000) FROM [$(schema)].[history] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE queue_id = @queue_id AND at < @oldest
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    DELETE TOP (1000) FROM [$(schema)].[kind_history] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE queue_id = @queue_id AND hour < @last_week
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() NOT IN (1205, 1222)
        THROW;
END CATCH;
GO
