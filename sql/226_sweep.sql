-- For promote: compares the marks of a queue with its ready index, including ghosts, and corrects marks that have
-- passed a ready job. The job's claim was rolled back, or its producer committed late.
--
-- NOLOCK, because a mark must not pass an uncommitted job. Sweeps take at most a twentieth of the time, and a slow
-- sweep postpones the next one by at most twenty minutes. If the caller abandons a sweep, the sweep cannot record its
-- duration. Each sweep therefore first records an estimate, which grows with every unfinished sweep: the next one
-- starts after 30 seconds, then after 2.5, 10.5 and 20 minutes.
CREATE OR ALTER PROCEDURE [$(schema)].[sweep]
    @queue_id int
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @next smallint = -32768, @priority smallint, @mark bigint,
    @lowered bigint, @head bigint, @missed bigint, @raised bigint, @newest bigint, @from_id bigint, @below_to bigint,
    @below_from bigint, @met int = 0, @took_ms bigint, @is_lifo bit = 0;

-- Does nothing in a caller's transaction, which would keep the marks locked.
IF @@TRANCOUNT > 0
    OR EXISTS (SELECT 1 FROM [$(schema)].[duties] WHERE queue_id = @queue_id AND sweep_ms > 50 AND swept_at <= @now
                   AND swept_at > DATEADD(MILLISECOND, -20 * sweep_ms, @now))
    RETURN;

IF NOT EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id)
    RETURN;
UPDATE [$(schema)].[duties] WITH (ROWLOCK)
SET swept_at = @now, sweep_ms = CASE WHEN sweep_ms < 14625 THEN 4 * sweep_ms + 1500 ELSE 60000 END
WHERE queue_id = @queue_id;
SET @newest = NEXT VALUE FOR [$(schema)].[job_ids];
WHILE @next IS NOT NULL
BEGIN
    SET @priority = NULL;
    SET @missed = NULL;
    SELECT TOP (1) @priority = m.priority, @mark = m.job_id, @lowered = m.lowered, @from_id = m.from_id,
           @below_to = m.below_to, @below_from = m.below_from
    FROM [$(schema)].[marks] AS m WITH (NOLOCK)
    WHERE m.queue_id = @queue_id AND m.priority >= @next
    ORDER BY m.priority;
    IF @priority IS NULL
        BREAK;
    -- Read after the mark, because create_queue lowers the marks after it has changed the order.
    SET @is_lifo = (SELECT CASE claim_order WHEN 'lifo' THEN 1 ELSE 0 END FROM [$(schema)].[queues]
        WHERE queue_id = @queue_id);
    IF @is_lifo = 1
    BEGIN
        -- A claimable job in a gap cuts the gap. Elsewhere, the highest job counts, even if it is uncommitted.
        IF @below_to > 0
            SELECT @missed = (SELECT TOP (1) j.job_id
                FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0 AND j.priority = @priority
                    AND j.job_id >= @below_from AND j.job_id < @below_to
                              ORDER BY j.job_id)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @missed IS NULL
            SELECT @missed = (SELECT TOP (1) j.job_id
                FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0 AND j.priority = @priority
                    AND j.job_id >= @from_id AND j.job_id < @mark
                              ORDER BY j.job_id)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SELECT @head = (SELECT TOP (1) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0 AND j.priority = @priority
                    AND j.job_id >= @mark
                        ORDER BY j.job_id DESC)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @head IS NULL
            SELECT @head = (SELECT TOP (1) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0 AND j.priority = @priority
                    AND j.job_id >= @below_to AND j.job_id < @from_id
                            ORDER BY j.job_id DESC)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @head IS NULL AND @below_to > 0
            SELECT @head = (SELECT TOP (1) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0 AND j.priority = @priority
                    AND j.job_id < @below_from
                            ORDER BY j.job_id DESC)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @missed IS NOT NULL
            EXEC [$(schema)].[lower_marks] @queue_id, @missed, @priority;
        SET @raised = ISNULL(@head + 1, 0);
        EXEC [$(schema)].[widen_gap] @queue_id, @priority, @lowered, @raised, @newest;
        -- Discards earlier observations of claims, because claims skip locked jobs.
        UPDATE [$(schema)].[marks] WITH (ROWLOCK)
        SET lowered = lowered + 1
        WHERE queue_id = @queue_id AND priority = @priority AND @head IS NOT NULL;
    END;
    ELSE
    BEGIN
        SELECT @head = (SELECT TOP (1) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0 AND j.priority = @priority
                ORDER BY j.job_id)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        -- A job below the mark lowers the mark if a claim could take the job. An uncommitted job does not lower the
        -- mark: every claim would then read all entries from that job to the head until its transaction ends.
        IF @head < @mark
            SELECT @missed = (SELECT TOP (1) j.job_id
                FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
                WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0 AND j.priority = @priority
                    AND j.job_id < @mark
                              ORDER BY j.job_id)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

        -- A missed job always lowers the mark. Otherwise the mark is raised if that saves reading more than a few
        -- entries: to the head or, if no job is ready, to @newest. Earlier observations of claims can then no longer
        -- raise it.
        SET @raised = ISNULL(@head, @newest) - 32;
        UPDATE [$(schema)].[marks] WITH (ROWLOCK)
        SET job_id  = CASE WHEN @missed < job_id THEN @missed - 32
                           WHEN lowered = @lowered AND @raised > job_id + 32 THEN @raised
                           ELSE job_id END,
            lowered = lowered + 1
        WHERE queue_id = @queue_id AND priority = @priority
            AND (@head IS NOT NULL OR (lowered = @lowered AND @raised > job_id + 32));
    END;

    -- If there are more than 16 priorities, marks without jobs are deleted, because each mark costs every claim a seek.
    SET @met = @met + 1;
    IF @head IS NULL AND @met > 16
        DELETE [$(schema)].[marks] WITH (ROWLOCK)
            WHERE queue_id = @queue_id AND priority = @priority AND lowered = @lowered;

    SET @next = CASE WHEN @priority < 32767 THEN @priority + 1 END;
END;

-- May be days or negative if the clock jumped.
SET @took_ms = DATEDIFF_BIG(MILLISECOND, @now, SYSUTCDATETIME());
UPDATE [$(schema)].[duties] WITH (ROWLOCK)
SET sweep_ms = CASE WHEN @took_ms < 0 THEN 0 WHEN @took_ms > 60000 THEN 60000 ELSE @took_ms END
WHERE queue_id = @queue_id;
GO
