-- 000_adopted_table.sql
DECLARE @id int = OBJECT_ID(N'[dbo].[PendingQueue]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
    THROW 58003, N'there is no table dbo.PendingQueue in this database, or this login may not see it', 1;
        (N'column DueTime datetime 8 23 3 not null'),
        (N'column Payload varbinary -1 0 0 null'),
        (N'index clustered, key 1: DueTime');
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (N''));
    SET @message = CONCAT(N'dbo.PendingQueue is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
-- 000_begin.sql
-- 095_adoption.sql
-- The adoption of [dbo].[PendingQueue]: its origin, and the columns of jobs that identify the row of a job.
    THROW 58003, N'schema pending_queue has queues of its own; choose another schema for the adoption', 1;
    WHERE table_name <> N'dbo.PendingQueue' OR queue <> N'PendingQueue')
    THROW 58003, N'schema pending_queue adopts another table or queue; remove that first, or choose another schema', 1;
IF NOT EXISTS (SELECT 1 FROM [pending_queue].[adoption] WHERE kept = N'a claim deletes; key ; jobs has [their_DueTime] datetime NULL, [their_Payload] varbinary(max) NULL')
        THROW 58003, N'schema pending_queue has jobs of another mapping; finish them, or readpast adopt --remove', 1;
        THROW 58003, N'workers of dbo.PendingQueue are running; stop them first, or their claims would fail', 1;
IF COL_LENGTH(N'[pending_queue].[jobs]', N'their_DueTime') IS NULL
    ALTER TABLE [pending_queue].[jobs] ADD [their_DueTime] datetime NULL;
IF COL_LENGTH(N'[pending_queue].[jobs]', N'their_Payload') IS NULL
    ALTER TABLE [pending_queue].[jobs] ADD [their_Payload] varbinary(max) NULL;
-- 200_create_queue.sql
    THROW 58003, N'this schema adopts dbo.PendingQueue, and has only that queue', 1;
    THROW 58003, N'the queue is the table dbo.PendingQueue: its mapping has these settings, and it has no groups', 1;
    THROW 58003, N'the queue is the table dbo.PendingQueue, which cannot have max_running, rate_jobs, max_depth, age_after_ms or fair', 1;
IF @keep_dead_s > 0
    THROW 58003, N'this queue is the table dbo.PendingQueue, whose claims delete: a dead job has the only copy of its row, which keep_dead_s would delete; requeue or purge these jobs, or set [dead] move in the mapping', 1;
-- 210_enqueue.sql
THROW 58003, N'the queue is the table dbo.PendingQueue; insert a row there to enqueue a job', 1;
-- 218_note_ends.sql
-- For procedures whose jobs fail or finish other than done, in their transaction: changes the rows of [dbo].[PendingQueue] as
-- 220_enqueue_batch.sql
THROW 58003, N'the queue is the table dbo.PendingQueue; insert a row there to enqueue a job', 1;
-- 230_claim.sql
-- Held jobs come first; the rest of the room is for rows of [dbo].[PendingQueue].
    [their_DueTime] datetime NULL,
    [their_Payload] varbinary(max) NULL
           [DueTime], [Payload]
    FROM [dbo].[PendingQueue] AS t
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (1))
    WHERE [DueTime] < CAST(GETUTCDATE() AS datetime)
    ORDER BY [DueTime]
DELETE next_rows
OUTPUT deleted.[DueTime], deleted.[Payload]
INTO @rows ([their_DueTime], [their_Payload])
        payload_utf16, payload, plain, headers, [their_DueTime], [their_Payload])
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END
INTO @answer (job_id, fence, attempt, priority, waited_ms, age_ms, payload_utf16, payload)
SELECT NEXT VALUE FOR [pending_queue].[job_ids] OVER (ORDER BY k.[their_DueTime]), @queue_id, 2, @worker_id, @now, 1,
       1, CAST(ISNULL(k.[their_DueTime], @now) AS datetime2(3)), CAST(ISNULL(k.[their_DueTime], @now) AS datetime2(3)), 0, NULL, 0, ISNULL(k.[their_Payload], 0x), 1,
       NULL, k.[their_DueTime], k.[their_Payload]
-- 232_look.sql
    FROM [dbo].[PendingQueue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (1)) WHERE [DueTime] < CAST(GETUTCDATE() AS datetime))
-- 240_finish.sql
    OUTPUT deleted.job_id, 0 INTO @found (job_id, dead)
-- 300_reap.sql
-- 350_sample.sql
    -- Up to 10,000 rows of [dbo].[PendingQueue] are counted; the oldest is the first in their order.
        FROM [dbo].[PendingQueue] AS t WITH (NOLOCK, INDEX (1)) WHERE [DueTime] < CAST(GETUTCDATE() AS datetime)) AS h);
        SET @due_at = (SELECT TOP (1) CAST([DueTime] AS datetime2(3))
            FROM [dbo].[PendingQueue] AS t WITH (NOLOCK, INDEX (1)) WHERE [DueTime] < CAST(GETUTCDATE() AS datetime)
    ORDER BY [DueTime]);
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[PendingQueue] AS t WITH (NOLOCK, INDEX (1)) WHERE [DueTime] < CAST(GETUTCDATE() AS datetime))
-- 400_stats.sql
                               FROM [dbo].[PendingQueue] AS t WITH (NOLOCK, INDEX (1)) WHERE [DueTime] < CAST(GETUTCDATE() AS datetime)) AS c),
                          (SELECT TOP (1) CAST([DueTime] AS datetime2(3))
                           FROM [dbo].[PendingQueue] AS t WITH (NOLOCK, INDEX (1)) WHERE [DueTime] < CAST(GETUTCDATE() AS datetime)
    ORDER BY [DueTime])
-- 405_list_kinds.sql
            FROM [dbo].[PendingQueue] AS t WITH (NOLOCK, INDEX (1)) WHERE [DueTime] < CAST(GETUTCDATE() AS datetime)) AS r
-- 406_backlog.sql
            FROM [dbo].[PendingQueue] AS t WITH (NOLOCK, INDEX (1)) WHERE [DueTime] < CAST(GETUTCDATE() AS datetime)) AS c)
        FROM [dbo].[PendingQueue] AS t WITH (NOLOCK, INDEX (1)) WHERE [DueTime] < CAST(GETUTCDATE() AS datetime)
-- 430_requeue.sql
-- 437_run_again.sql
THROW 58003, N'the queue is the table dbo.PendingQueue; insert a new row for a job that is to run again', 1;
-- 440_purge.sql
    THROW 58003, N'the queue is the table dbo.PendingQueue; cancel its jobs, or delete its rows', 1;
-- 444_delete_queue.sql
THROW 58003, N'the queue is the table dbo.PendingQueue; run readpast adopt --remove to delete it', 1;
-- 470_set_schedule.sql
THROW 58003, N'the queue is the table dbo.PendingQueue; insert its rows by an Agent job, for example', 1;
-- 490_create_batch.sql
THROW 58003, N'the queue is the table dbo.PendingQueue, which has no batches', 1;
