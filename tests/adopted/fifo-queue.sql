-- 095_adoption.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The adoption of [dbo].[FifoQueue]: what it was made from, and the columns of jobs that say which row a job is.
IF OBJECT_ID(N'[fifo_queue].[adoption]', N'U') IS NULL AND EXISTS (SELECT 1 FROM [fifo_queue].[queues])
    THROW 58003, N'schema fifo_queue has queues of its own; choose another schema for the adoption', 1;
IF OBJECT_ID(N'[fifo_queue].[adoption]', N'U') IS NULL
    CREATE TABLE [fifo_queue].[adoption]
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
IF EXISTS (SELECT 1 FROM [fifo_queue].[adoption] WHERE table_name <> N'dbo.FifoQueue' OR queue <> N'FifoQueue')
    THROW 58003, N'schema fifo_queue is the adoption of another table or under another queue name; remove that first, or choose another schema', 1;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- NULL in all of them: a column can be added at any time, whatever rows there are.
IF COL_LENGTH(N'[fifo_queue].[jobs]', N'their_Id') IS NULL
    ALTER TABLE [fifo_queue].[jobs] ADD [their_Id] bigint NULL;
IF COL_LENGTH(N'[fifo_queue].[jobs]', N'their_Payload') IS NULL
    ALTER TABLE [fifo_queue].[jobs] ADD [their_Payload] varbinary(max) NULL;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO

-- 200_create_queue.sql
IF EXISTS (SELECT 1 FROM [fifo_queue].[adoption] WHERE queue <> @queue)
    THROW 58003, N'this schema is the adoption of dbo.FifoQueue: it has one queue', 1;
IF @completion <> 'delete' OR @delivery <> 'at_least_once' OR @claim_order <> 'fifo' OR @keep_done_s > 0 OR @group_limit > 1 OR @retry_passes = 1
    THROW 58003, N'this queue is the table dbo.FifoQueue: what becomes of a done row, and in which order rows come, the mapping says, and there are no groups', 1;
IF @max_running > 0 OR @rate_jobs > 0
    THROW 58003, N'this queue is the table dbo.FifoQueue: max_running and rate_jobs are for tables of readpast''s own', 1;
-- 210_enqueue.sql
THROW 58003, N'this queue is the table dbo.FifoQueue: to enqueue a job, insert a row there', 1;
-- 218_note_ends.sql
-- For those who end jobs otherwise than by done, or whose jobs have failed, in their transaction: does to the rows of [dbo].[FifoQueue] what the mapping
-- says. The caller holds the jobs' rows, and has changed them: a job that is dead (4) or cancelled (5) has ended; one that waits (0, 1), and of which
-- @members says state 1, has failed and will be tried again.
-- (An adopted table has neither batches nor groups, for which this procedure is otherwise.)
RETURN 0;
-- 220_enqueue_batch.sql
THROW 58003, N'this queue is the table dbo.FifoQueue: to enqueue a job, insert a row there', 1;
-- 230_claim.sql
    IF @room = 0
    IF @priority = 32767
        BREAK;
-- The jobs that are held came first. What room is left is for rows of [dbo].[FifoQueue].
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
DECLARE @rows TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    [their_Id] bigint NULL,
    [their_Payload] varbinary(max) NULL
);
BEGIN TRANSACTION;
WITH next_rows AS
(
    SELECT TOP (@room)
           [Id], [Payload]
    FROM [dbo].[FifoQueue] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([cdxFifoQueue]))
    ORDER BY [Id]
)
DELETE next_rows
OUTPUT deleted.[Id], deleted.[Payload]
INTO @rows ([their_Id], [their_Payload])
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
    COMMIT TRANSACTION;
INSERT [fifo_queue].[jobs] WITH (ROWLOCK)
       (job_id, queue_id, state, lifo, worker_id, claimed_at, fence, attempt, enqueued_at, due_at, priority, kind, payload_utf16, payload, plain,
        headers, [their_Id], [their_Payload])
OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, @max_attempts AS max_attempts, inserted.priority,
       DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms,
       inserted.kind, inserted.payload_utf16,
       CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
       N'{"headers":' + inserted.headers + N'}' AS details
SELECT NEXT VALUE FOR [fifo_queue].[job_ids] OVER (ORDER BY k.[their_Id]), @queue_id, 2, 0, @worker_id, @now, 1, 1, @now,
       @now, 0, NULL, 0, ISNULL(k.[their_Payload], 0x), 1,
       NULL, k.[their_Id], k.[their_Payload]
FROM @rows AS k
OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;
-- 232_look.sql
IF @found = 0 AND EXISTS (SELECT 1 FROM [dbo].[FifoQueue] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([cdxFifoQueue])))
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
    -- Rows of [dbo].[FifoQueue] are counted up to 100,000; the oldest is the first in their order.
    SET @counted = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) 1 AS one FROM [dbo].[FifoQueue] WITH (NOLOCK, INDEX ([cdxFifoQueue]))) AS h);
    IF @counted > 0
        SET @due_at = (SELECT TOP (1) CAST(NULL AS datetime2(3)) FROM [dbo].[FifoQueue] WITH (NOLOCK, INDEX ([cdxFifoQueue]))
    ORDER BY [Id]);
    IF @counted > 0 AND (@oldest IS NULL OR @due_at < @oldest)
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[FifoQueue] WITH (NOLOCK, INDEX ([cdxFifoQueue])))
-- 400_stats.sql
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.alone = 1) AS c
                   SELECT (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one FROM [dbo].[FifoQueue] WITH (NOLOCK, INDEX ([cdxFifoQueue]))) AS c),
                          (SELECT TOP (1) CAST(NULL AS datetime2(3)) FROM [dbo].[FifoQueue] WITH (NOLOCK, INDEX ([cdxFifoQueue]))
    ORDER BY [Id])) AS i) AS r
-- 406_backlog.sql
                                              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c)
               + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one FROM [dbo].[FifoQueue] WITH (NOLOCK, INDEX ([cdxFifoQueue]))) AS c);
-- 440_purge.sql
IF @state IN ('ready', 'scheduled', 'waiting')
    THROW 58003, N'this queue is the table dbo.FifoQueue: unfinished jobs are rows of it that are held; cancel them, or delete the rows there', 1;
-- 444_delete_queue.sql
THROW 58003, N'this queue is the table dbo.FifoQueue; "readpast adopt --remove" gives back what is held and removes the schema', 1;
-- 470_set_schedule.sql
THROW 58003, N'this queue is the table dbo.FifoQueue: what comes at its times is to be inserted there, by an Agent job for instance', 1;
-- 490_create_batch.sql
THROW 58003, N'this queue is the table dbo.FifoQueue: its rows belong to no batches', 1;
