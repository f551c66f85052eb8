-- 095_adoption.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The adoption of [dbo].[PendingQueue]: what it was made from, and the columns of jobs that say which row a job is.
IF OBJECT_ID(N'[pending_queue].[adoption]', N'U') IS NULL AND EXISTS (SELECT 1 FROM [pending_queue].[queues])
    THROW 58003, N'schema pending_queue has queues of its own; choose another schema for the adoption', 1;
IF OBJECT_ID(N'[pending_queue].[adoption]', N'U') IS NULL
    CREATE TABLE [pending_queue].[adoption]
    (
        queue      nvarchar(128) NOT NULL,
        table_name nvarchar(517) NOT NULL,
        mapping    nvarchar(max) NOT NULL,
        facts      nvarchar(max) NOT NULL,  -- what the table was, a line for each column, index and so on
        adopted_at datetime2(3)  NOT NULL CONSTRAINT adoption_adopted_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT adoption_pk PRIMARY KEY CLUSTERED (queue)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
IF EXISTS (SELECT 1 FROM [pending_queue].[adoption] WHERE table_name <> N'dbo.PendingQueue' OR queue <> N'PendingQueue')
    THROW 58003, N'schema pending_queue is the adoption of another table or under another queue name; remove that first, or choose another schema', 1;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- NULL in all of them: a column can be added at any time, whatever rows there are.
IF COL_LENGTH(N'[pending_queue].[jobs]', N'their_DueTime') IS NULL
    ALTER TABLE [pending_queue].[jobs] ADD [their_DueTime] datetime NULL;
IF COL_LENGTH(N'[pending_queue].[jobs]', N'their_Payload') IS NULL
    ALTER TABLE [pending_queue].[jobs] ADD [their_Payload] varbinary(max) NULL;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO

-- 200_create_queue.sql
IF EXISTS (SELECT 1 FROM [pending_queue].[adoption] WHERE queue <> @queue)
    THROW 58003, N'this schema is the adoption of dbo.PendingQueue: it has one queue', 1;
IF @completion <> 'delete' OR @delivery <> 'at_least_once' OR @claim_order <> 'fifo' OR @keep_done_s > 0 OR @group_limit > 1 OR @retry_passes = 1
    THROW 58003, N'this queue is the table dbo.PendingQueue: what becomes of a done row, and in which order rows come, the mapping says, and there are no groups', 1;
IF @max_running > 0 OR @rate_jobs > 0
    THROW 58003, N'this queue is the table dbo.PendingQueue: max_running and rate_jobs are for tables of readpast''s own', 1;
-- 210_enqueue.sql
THROW 58003, N'this queue is the table dbo.PendingQueue: to enqueue a job, insert a row there', 1;
-- 218_note_ends.sql
-- For those who end jobs otherwise than by done, or whose jobs have failed, in their transaction: does to the rows of [dbo].[PendingQueue] what the mapping
-- says. The caller holds the jobs' rows, and has changed them: a job that is dead (4) or cancelled (5) has ended; one that waits (0, 1), and of which
-- @members says state 1, has failed and will be tried again.
-- (An adopted table has neither batches nor groups, for which this procedure is otherwise.)
RETURN 0;
-- 220_enqueue_batch.sql
THROW 58003, N'this queue is the table dbo.PendingQueue: to enqueue a job, insert a row there', 1;
-- 230_claim.sql
    IF @room = 0
    IF @priority = 32767
        BREAK;
-- The jobs that are held came first. What room is left is for rows of [dbo].[PendingQueue].
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
DECLARE @rows TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    [their_DueTime] datetime NULL,
    [their_Payload] varbinary(max) NULL
);
BEGIN TRANSACTION;
WITH next_rows AS
(
    SELECT TOP (@room)
           [DueTime], [Payload]
    FROM [dbo].[PendingQueue] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([cdxPendingQueue]))
    WHERE [DueTime] < GETUTCDATE()
    ORDER BY [DueTime]
)
DELETE next_rows
OUTPUT deleted.[DueTime], deleted.[Payload]
INTO @rows ([their_DueTime], [their_Payload])
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
    COMMIT TRANSACTION;
INSERT [pending_queue].[jobs] WITH (ROWLOCK)
       (job_id, queue_id, state, lifo, worker_id, claimed_at, fence, attempt, enqueued_at, due_at, priority, kind, payload_utf16, payload, plain,
        headers, [their_DueTime], [their_Payload])
OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, @max_attempts AS max_attempts, inserted.priority,
       DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms,
       inserted.kind, inserted.payload_utf16,
       CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
       N'{"headers":' + inserted.headers + N'}' AS details
SELECT NEXT VALUE FOR [pending_queue].[job_ids] OVER (ORDER BY k.[their_DueTime]), @queue_id, 2, 0, @worker_id, @now, 1, 1, CAST(ISNULL(k.[their_DueTime], @now) AS datetime2(3)),
       CAST(ISNULL(k.[their_DueTime], @now) AS datetime2(3)), 0, NULL, 0, ISNULL(k.[their_Payload], 0x), 1,
       NULL, k.[their_DueTime], k.[their_Payload]
FROM @rows AS k
OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;
-- 232_look.sql
IF @found = 0 AND EXISTS (SELECT 1 FROM [dbo].[PendingQueue] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([cdxPendingQueue])) WHERE [DueTime] < GETUTCDATE())
-- 240_finish.sql
    -- Snoozed ones have not failed.
    INSERT @members (job_id, state)
    SELECT f.job_id, CASE WHEN f.outcome = 3 THEN 0 ELSE 1 END
    INNER JOIN @found AS d ON d.job_id = f.job_id
    WHERE f.outcome > 0;
    DELETE @members;
-- 300_reap.sql
    SELECT g.job_id, CASE WHEN g.state >= 3 THEN g.state ELSE 1 END, g.in_turn, g.batch_id, g.group_key
    FROM @given_back AS g;
-- 350_sample.sql
    -- Rows of [dbo].[PendingQueue] are counted up to 100,000; the oldest is the first in their order.
    SET @counted = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) 1 AS one FROM [dbo].[PendingQueue] WITH (NOLOCK, INDEX ([cdxPendingQueue])) WHERE [DueTime] < GETUTCDATE()) AS h);
    IF @counted > 0
        SET @due_at = (SELECT TOP (1) CAST([DueTime] AS datetime2(3)) FROM [dbo].[PendingQueue] WITH (NOLOCK, INDEX ([cdxPendingQueue])) WHERE [DueTime] < GETUTCDATE()
    ORDER BY [DueTime]);
    IF @counted > 0 AND (@oldest IS NULL OR @due_at < @oldest)
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[PendingQueue] WITH (NOLOCK, INDEX ([cdxPendingQueue])) WHERE [DueTime] < GETUTCDATE())
-- 400_stats.sql
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.alone = 1) AS c
                   SELECT (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one FROM [dbo].[PendingQueue] WITH (NOLOCK, INDEX ([cdxPendingQueue])) WHERE [DueTime] < GETUTCDATE()) AS c),
                          (SELECT TOP (1) CAST([DueTime] AS datetime2(3)) FROM [dbo].[PendingQueue] WITH (NOLOCK, INDEX ([cdxPendingQueue])) WHERE [DueTime] < GETUTCDATE()
    ORDER BY [DueTime])) AS i) AS r
-- 406_backlog.sql
                                              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c)
               + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one FROM [dbo].[PendingQueue] WITH (NOLOCK, INDEX ([cdxPendingQueue])) WHERE [DueTime] < GETUTCDATE()) AS c);
-- 440_purge.sql
IF @state IN ('ready', 'scheduled', 'waiting')
    THROW 58003, N'this queue is the table dbo.PendingQueue: unfinished jobs are rows of it that are held; cancel them, or delete the rows there', 1;
-- 444_delete_queue.sql
THROW 58003, N'this queue is the table dbo.PendingQueue; "readpast adopt --remove" gives back what is held and removes the schema', 1;
-- 470_set_schedule.sql
THROW 58003, N'this queue is the table dbo.PendingQueue: what comes at its times is to be inserted there, by an Agent job for instance', 1;
-- 490_create_batch.sql
THROW 58003, N'this queue is the table dbo.PendingQueue: its rows belong to no batches', 1;
