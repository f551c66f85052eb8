-- 095_adoption.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The adoption of [dbo].[SimpleQueue]: what it was made from, and the columns of jobs that say which row a job is.
IF OBJECT_ID(N'[simple_queue].[adoption]', N'U') IS NULL AND EXISTS (SELECT 1 FROM [simple_queue].[queues])
    THROW 58003, N'schema simple_queue has queues of its own; choose another schema for the adoption', 1;
IF OBJECT_ID(N'[simple_queue].[adoption]', N'U') IS NULL
    CREATE TABLE [simple_queue].[adoption]
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
IF EXISTS (SELECT 1 FROM [simple_queue].[adoption] WHERE table_name <> N'dbo.SimpleQueue' OR queue <> N'SimpleQueue')
    THROW 58003, N'schema simple_queue is the adoption of another table or under another queue name; remove that first, or choose another schema', 1;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- NULL in all of them: a column can be added at any time, whatever rows there are.
IF COL_LENGTH(N'[simple_queue].[jobs]', N'their_Id') IS NULL
    ALTER TABLE [simple_queue].[jobs] ADD [their_Id] uniqueidentifier NULL;
IF COL_LENGTH(N'[simple_queue].[jobs]', N'their_ProcessingStartedAt') IS NULL
    ALTER TABLE [simple_queue].[jobs] ADD [their_ProcessingStartedAt] datetime2(7) NULL;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Which job a row is.
IF INDEXPROPERTY(OBJECT_ID(N'[simple_queue].[jobs]'), N'jobs_their_key', 'IndexID') IS NULL
    CREATE UNIQUE NONCLUSTERED INDEX jobs_their_key ON [simple_queue].[jobs] ([their_Id])
        WHERE [their_Id] IS NOT NULL
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);
GO

-- 200_create_queue.sql
IF EXISTS (SELECT 1 FROM [simple_queue].[adoption] WHERE queue <> @queue)
    THROW 58003, N'this schema is the adoption of dbo.SimpleQueue: it has one queue', 1;
IF @completion <> 'delete' OR @delivery <> 'at_least_once' OR @claim_order <> 'fifo' OR @keep_done_s > 0 OR @group_limit > 1 OR @retry_passes = 1
    THROW 58003, N'this queue is the table dbo.SimpleQueue: what becomes of a done row, and in which order rows come, the mapping says, and there are no groups', 1;
IF @max_running > 0 OR @rate_jobs > 0
    THROW 58003, N'this queue is the table dbo.SimpleQueue: max_running and rate_jobs are for tables of readpast''s own', 1;
-- 210_enqueue.sql
THROW 58003, N'this queue is the table dbo.SimpleQueue: to enqueue a job, insert a row there', 1;
-- 218_note_ends.sql
-- For those who end jobs otherwise than by done, or whose jobs have failed, in their transaction: does to the rows of [dbo].[SimpleQueue] what the mapping
-- says. The caller holds the jobs' rows, and has changed them: a job that is dead (4) or cancelled (5) has ended; one that waits (0, 1), and of which
-- @members says state 1, has failed and will be tried again.
-- (An adopted table has neither batches nor groups, for which this procedure is otherwise.)
UPDATE t
SET [Errors] = j.error
INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = j.[their_Id]
WHERE m.state = 1 AND j.state IN (0, 1)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
UPDATE t
SET [Errors] = j.error
INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = j.[their_Id]
WHERE j.state IN (4, 5)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
RETURN 0;
-- 220_enqueue_batch.sql
THROW 58003, N'this queue is the table dbo.SimpleQueue: to enqueue a job, insert a row there', 1;
-- 230_claim.sql
    IF @room = 0
    IF @priority = 32767
        BREAK;
-- The jobs that are held came first. What room is left is for rows of [dbo].[SimpleQueue].
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
DECLARE @rows TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    [their_Id] uniqueidentifier NULL,
    [their_CreatedAt] datetime2(7) NULL,
    [their_ProcessingStartedAt] datetime2(7) NULL,
    [their_Payload] nvarchar(max) COLLATE SQL_Latin1_General_CP1_CI_AS NULL
);
BEGIN TRANSACTION;
WITH next_rows AS
(
    SELECT TOP (@room)
           [Id], [CreatedAt], [ProcessingStartedAt], [Payload]
    FROM [dbo].[SimpleQueue] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([IX_SIMPLEQUEUE_POP]))
    WHERE [ProcessingStartedAt] IS NULL
    ORDER BY [CreatedAt]
)
UPDATE next_rows
SET [ProcessingStartedAt] = SYSUTCDATETIME()
OUTPUT deleted.[Id], deleted.[CreatedAt], deleted.[ProcessingStartedAt], deleted.[Payload]
INTO @rows ([their_Id], [their_CreatedAt], [their_ProcessingStartedAt], [their_Payload])
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
    COMMIT TRANSACTION;
-- A row whose key has a job already was made ready by somebody else: the job is taken over, its fence grows, its attempts begin again.
IF EXISTS (SELECT 1
           FROM @rows AS k
           INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (NOLOCK, FORCESEEK, INDEX (jobs_their_key)) ON j.[their_Id] = k.[their_Id] AND j.[their_Id] IS NOT NULL)
    UPDATE j
    SET state = 2, ended = 0, alone = 0, fence = j.fence + 1, attempt = 1, worker_id = @worker_id, claimed_at = @now,
        due_at = CAST(ISNULL(k.[their_CreatedAt], @now) AS datetime2(3)), finished_at = NULL, run_us = NULL, error = NULL, cancelling = NULL,
        payload_utf16 = 1, payload = ISNULL(CAST(k.[their_Payload] AS varbinary(max)), 0x),
        [their_ProcessingStartedAt] = k.[their_ProcessingStartedAt]
    OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, @max_attempts AS max_attempts, inserted.priority,
           DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms,
           inserted.kind, inserted.payload_utf16,
           N'{"headers":' + inserted.headers + N'}' AS details
    FROM @rows AS k
    INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_their_key)) ON j.[their_Id] = k.[their_Id] AND j.[their_Id] IS NOT NULL
    DELETE k
    FROM @rows AS k
    INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_their_key)) ON j.[their_Id] = k.[their_Id] AND j.[their_Id] IS NOT NULL
INSERT [simple_queue].[jobs] WITH (ROWLOCK)
       (job_id, queue_id, state, lifo, worker_id, claimed_at, fence, attempt, enqueued_at, due_at, priority, kind, payload_utf16, payload, plain,
        headers, [their_Id], [their_ProcessingStartedAt])
OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, @max_attempts AS max_attempts, inserted.priority,
       DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms,
       inserted.kind, inserted.payload_utf16,
       CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
       N'{"headers":' + inserted.headers + N'}' AS details
SELECT NEXT VALUE FOR [simple_queue].[job_ids] OVER (ORDER BY k.[their_CreatedAt]), @queue_id, 2, 0, @worker_id, @now, 1, 1, CAST(ISNULL(k.[their_CreatedAt], @now) AS datetime2(3)),
       CAST(ISNULL(k.[their_CreatedAt], @now) AS datetime2(3)), 0, NULL, 1, ISNULL(CAST(k.[their_Payload] AS varbinary(max)), 0x), 0,
       CONCAT(N'{"Id":"', CONVERT(nvarchar(36), k.[their_Id]), N'"}'), k.[their_Id], k.[their_ProcessingStartedAt]
FROM @rows AS k
OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;
-- 232_look.sql
IF @found = 0 AND EXISTS (SELECT 1 FROM [dbo].[SimpleQueue] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL)
-- 240_finish.sql
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead bit NOT NULL, attempt int NULL, [their_Id] uniqueidentifier NULL);
    OUTPUT deleted.job_id, 0, deleted.[their_Id] INTO @found (job_id, dead, [their_Id])
    -- Their rows, in the order of the jobs.
    DELETE t
    FROM @found AS d
    INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = d.[their_Id]
    -- Snoozed ones have not failed.
    INSERT @members (job_id, state)
    SELECT f.job_id, CASE WHEN f.outcome = 3 THEN 0 ELSE 1 END
    INNER JOIN @found AS d ON d.job_id = f.job_id
    WHERE f.outcome > 0;
    DELETE @members;
-- 250_release.sql
-- A row that was claimed for the first time, and has saved nothing, goes back: it is as the claim found it, and the job is gone.
DECLARE @returned TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, [their_Id] uniqueidentifier NULL,
    [their_ProcessingStartedAt] datetime2(7) NULL);
BEGIN TRANSACTION;
DELETE j
OUTPUT deleted.job_id, deleted.[their_Id], deleted.[their_ProcessingStartedAt]
INTO @returned (job_id, [their_Id], [their_ProcessingStartedAt])
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = r.fence AND j.fence = 1 AND j.cancelling IS NULL AND ISNULL(j.checkpointed, 0) = 0
IF @@ROWCOUNT > 0
    UPDATE t
    SET t.[ProcessingStartedAt] = b.[their_ProcessingStartedAt]
    FROM @returned AS b
    INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, FORCESEEK) ON b.[their_Id] = t.[Id]
COMMIT TRANSACTION;
SET @released = @@ROWCOUNT + (SELECT COUNT(*) FROM @returned);
INSERT @found (job_id) SELECT job_id FROM @returned;
-- 300_reap.sql
    SELECT g.job_id, CASE WHEN g.state >= 3 THEN g.state ELSE 1 END, g.in_turn, g.batch_id, g.group_key
    FROM @given_back AS g;
-- 350_sample.sql
    -- Rows of [dbo].[SimpleQueue] are counted up to 100,000; the oldest is the first in their order.
    SET @counted = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) 1 AS one FROM [dbo].[SimpleQueue] WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL) AS h);
    IF @counted > 0
        SET @due_at = (SELECT TOP (1) CAST([CreatedAt] AS datetime2(3)) FROM [dbo].[SimpleQueue] WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
    ORDER BY [CreatedAt]);
    IF @counted > 0 AND (@oldest IS NULL OR @due_at < @oldest)
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[SimpleQueue] WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL)
-- 400_stats.sql
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.alone = 1) AS c
                   SELECT (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one FROM [dbo].[SimpleQueue] WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL) AS c),
                          (SELECT TOP (1) CAST([CreatedAt] AS datetime2(3)) FROM [dbo].[SimpleQueue] WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
    ORDER BY [CreatedAt])) AS i) AS r
-- 406_backlog.sql
                                              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c)
               + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one FROM [dbo].[SimpleQueue] WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL) AS c);
-- 440_purge.sql
IF @state IN ('ready', 'scheduled', 'waiting')
    THROW 58003, N'this queue is the table dbo.SimpleQueue: unfinished jobs are rows of it that are held; cancel them, or delete the rows there', 1;
-- 444_delete_queue.sql
THROW 58003, N'this queue is the table dbo.SimpleQueue; "readpast adopt --remove" gives back what is held and removes the schema', 1;
-- 470_set_schedule.sql
THROW 58003, N'this queue is the table dbo.SimpleQueue: what comes at its times is to be inserted there, by an Agent job for instance', 1;
-- 490_create_batch.sql
THROW 58003, N'this queue is the table dbo.SimpleQueue: its rows belong to no batches', 1;
