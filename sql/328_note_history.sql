-- For sample and unregister_worker: adds the last sample and the workers' new reports to the history row of the
-- sample's minute.
--
-- Each report is counted once, despite rollbacks, repeats and concurrent calls. The part that was counted is stored
-- with the worker (noted_...) in the same transaction. If two calls have read the same samples.notes, only the first
-- one raises it and continues. Reports are read and added up before the first change, so a heartbeat waits for a few
-- statements at most. A locked worker is skipped (READPAST). If the call has to wait for more than a tenth of a second,
-- it leaves everything to the next call.
CREATE OR ALTER PROCEDURE [$(schema)].[note_history]
    @queue_id int,
    @most     int = 1  -- the most minutes that a row covers; in a longer gap between samples, no worker ran
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @epoch datetime2(0) = '20000101', @notes int, @sampled_at datetime2(3),
    @at datetime2(0), @minutes int, @ready bigint, @scheduled bigint, @waiting bigint, @claimed bigint, @dead bigint,
    @cancelled bigint, @workers bigint, @oldest_ready_ms bigint, @done bigint, @failed bigint, @died bigint,
    @times varchar(1400), @bucket varchar(3) = '', @jobs bigint;
DECLARE @news TABLE (worker_id uniqueidentifier NOT NULL PRIMARY KEY CLUSTERED, done bigint NULL, failed bigint NULL,
    dead bigint NULL, times varchar(1400) COLLATE Latin1_General_100_BIN2 NULL, was_done bigint NOT NULL,
    was_failed bigint NOT NULL, was_dead bigint NOT NULL,
    was_times varchar(1400) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @counts TABLE (bucket varchar(3) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    jobs bigint NOT NULL);

-- A caller's transaction would keep the workers locked.
IF @@TRANCOUNT > 0
    RETURN;
SET LOCK_TIMEOUT 100;
BEGIN TRY
    SELECT @notes = notes, @sampled_at = sampled_at, @ready = ready, @scheduled = scheduled,
           @waiting = ISNULL(waiting, 0), @claimed = claimed, @dead = dead, @cancelled = ISNULL(cancelled, 0),
           @workers = workers, @oldest_ready_ms = DATEDIFF_BIG(MILLISECOND, oldest_due_at, sampled_at)
    FROM [$(schema)].[samples] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id;
    IF @sampled_at IS NULL
        RETURN;
    SET @at = DATEADD(MINUTE, DATEDIFF(MINUTE, @epoch, @sampled_at), @epoch);
    SET @minutes = DATEDIFF(MINUTE, @at, @now);
    SET @minutes = CASE WHEN @minutes > @most OR @minutes < 1 THEN 1 WHEN @minutes > 10 THEN 10 ELSE @minutes END;

    INSERT @news (worker_id, done, failed, dead, times, was_done, was_failed, was_dead, was_times)
    SELECT worker_id, done, failed, dead, times, ISNULL(noted_done, 0), ISNULL(noted_failed, 0), ISNULL(noted_dead, 0),
        noted_times
    FROM [$(schema)].[workers] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE queue_id = @queue_id
        AND (done <> ISNULL(noted_done, 0) OR failed <> ISNULL(noted_failed, 0) OR dead <> ISNULL(noted_dead, 0)
            OR times <> ISNULL(noted_times, ''))
    OPTION (MAXDOP 1);
    -- A worker's sums only grow. If another program reports smaller sums, the difference must not be negative.
    SELECT @done = ISNULL(SUM(CASE WHEN done > was_done THEN done - was_done ELSE 0 END), 0),
           @failed = ISNULL(SUM(CASE WHEN failed > was_failed THEN failed - was_failed ELSE 0 END), 0),
           @died = ISNULL(SUM(CASE WHEN dead > was_dead THEN dead - was_dead ELSE 0 END), 0)
    FROM @news;

    INSERT @counts (bucket, jobs)
    SELECT c.bucket, SUM(c.jobs)
    FROM (SELECT j.[key] AS bucket, CASE WHEN TRY_CAST(j.value AS bigint) BETWEEN 0 AND 1000000000000
                                        THEN TRY_CAST(j.value AS bigint) END AS jobs
          FROM @news AS n CROSS APPLY OPENJSON(CASE WHEN ISJSON(n.times) = 1 THEN n.times END) AS j
          UNION ALL
          SELECT j.[key], CASE WHEN TRY_CAST(j.value AS bigint) BETWEEN 0 AND 1000000000000
                              THEN -TRY_CAST(j.value AS bigint) END
          FROM @news AS n CROSS APPLY OPENJSON(CASE WHEN ISJSON(n.was_times) = 1 THEN n.was_times END) AS j
          UNION ALL
          SELECT j.[key], TRY_CAST(j.value AS bigint)
          FROM [$(schema)].[history] AS h WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (history_pk (queue_id, at)))
          CROSS APPLY OPENJSON(CASE WHEN ISJSON(h.times) = 1 THEN h.times END) AS j
          WHERE h.queue_id = @queue_id AND h.at = @at) AS c
    -- 52 buckets, whose counts fit into @times
    WHERE c.bucket LIKE '[wr][0-9]' OR c.bucket LIKE '[wr]1[0-9]' OR c.bucket LIKE '[wr]2[0-5]'
    GROUP BY c.bucket
    HAVING SUM(c.jobs) > 0
    OPTION (MAXDOP 1);
    WHILE 1 = 1
    BEGIN
        SELECT TOP (1) @bucket = bucket, @jobs = jobs FROM @counts WHERE bucket > @bucket ORDER BY bucket;
        IF @@ROWCOUNT = 0
            BREAK;
        SET @times = CONCAT(@times + ',', '"', @bucket, '":', @jobs);
    END;
    SET @times = '{' + @times + '}';

    BEGIN TRANSACTION;
    UPDATE [$(schema)].[samples] WITH (ROWLOCK) SET notes = notes + 1 WHERE queue_id = @queue_id AND notes = @notes;
    IF @@ROWCOUNT = 0
    BEGIN
        ROLLBACK TRANSACTION;
        RETURN;
    END;
    UPDATE w
    SET noted_done = n.done, noted_failed = n.failed, noted_dead = n.dead, noted_times = n.times
    FROM @news AS n
    INNER LOOP JOIN [$(schema)].[workers] AS w WITH (ROWLOCK, FORCESEEK, INDEX (workers_pk))
        ON w.worker_id = n.worker_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    UPDATE [$(schema)].[history] WITH (ROWLOCK)
    SET minutes = CASE WHEN minutes > @minutes THEN minutes ELSE @minutes END,
        ready = @ready, scheduled = @scheduled, waiting = @waiting, claimed = @claimed, dead = @dead,
        cancelled = @cancelled, workers = @workers, oldest_ready_ms = @oldest_ready_ms, done = done + @done,
        failed = failed + @failed, died = died + @died, times = @times
    WHERE queue_id = @queue_id AND at = @at;
    IF @@ROWCOUNT = 0
        INSERT [$(schema)].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, cancelled,
                                      workers, oldest_ready_ms, done, failed, died, times)
        VALUES (@queue_id, @at, @minutes, @ready, @scheduled, @waiting, @claimed, @dead, @cancelled, @workers,
                @oldest_ready_ms, @done, @failed, @died, @times);
    COMMIT TRANSACTION;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() NOT IN (1205, 1222)
        THROW;
END CATCH;
GO
