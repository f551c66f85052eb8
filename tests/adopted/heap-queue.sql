-- 000_adopted_table.sql
DECLARE @id int = OBJECT_ID(N'[dbo].[HeapQueue]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
    THROW 58003, N'there is no table dbo.HeapQueue in this database, or this login may not see it', 1;
        (N'column Payload varbinary -1 0 0 null');
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (N''));
    SET @message = CONCAT(N'dbo.HeapQueue is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
-- 000_begin.sql
-- 095_adoption.sql
-- The adoption of [dbo].[HeapQueue]: its origin, and the columns of jobs that identify the row of a job.
    THROW 58003, N'schema heap_queue has queues of its own; choose another schema for the adoption', 1;
    WHERE table_name <> N'dbo.HeapQueue' OR queue <> N'HeapQueue')
    THROW 58003, N'schema heap_queue adopts another table or queue; remove that first, or choose another schema', 1;
IF NOT EXISTS (SELECT 1 FROM [heap_queue].[adoption] WHERE kept = N'a claim deletes; key ; jobs has [their_Payload] varbinary(max) NULL')
        THROW 58003, N'schema heap_queue has jobs of another mapping; finish them, or readpast adopt --remove', 1;
        THROW 58003, N'workers of dbo.HeapQueue are running; stop them first, or their claims would fail', 1;
IF COL_LENGTH(N'[heap_queue].[jobs]', N'their_Payload') IS NULL
    ALTER TABLE [heap_queue].[jobs] ADD [their_Payload] varbinary(max) NULL;
-- 200_create_queue.sql
    THROW 58003, N'this schema adopts dbo.HeapQueue, and has only that queue', 1;
    THROW 58003, N'the queue is the table dbo.HeapQueue: its mapping has these settings, and it has no groups', 1;
    THROW 58003, N'the queue is the table dbo.HeapQueue, which cannot have max_running, rate_jobs, max_depth, age_after_ms or fair', 1;
IF @keep_dead_s > 0
    THROW 58003, N'this queue is the table dbo.HeapQueue, whose claims delete: a dead job has the only copy of its row, which keep_dead_s would delete; requeue or purge these jobs, or set [dead] move in the mapping', 1;
-- 210_enqueue.sql
THROW 58003, N'the queue is the table dbo.HeapQueue; insert a row there to enqueue a job', 1;
-- 218_note_ends.sql
-- For procedures whose jobs fail or finish other than done, in their transaction: changes the rows of [dbo].[HeapQueue] as
-- 220_enqueue_batch.sql
THROW 58003, N'the queue is the table dbo.HeapQueue; insert a row there to enqueue a job', 1;
-- 230_claim.sql
-- Held jobs come first; the rest of the room is for rows of [dbo].[HeapQueue].
    [their_Payload] varbinary(max) NULL
           [Payload]
    FROM [dbo].[HeapQueue] AS t
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK)
DELETE next_rows
OUTPUT deleted.[Payload]
INTO @rows ([their_Payload])
        payload_utf16, payload, plain, headers, [their_Payload])
       0,
       0,
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END
INTO @answer (job_id, fence, attempt, priority, waited_ms, age_ms, payload_utf16, payload)
SELECT NEXT VALUE FOR [heap_queue].[job_ids] OVER (ORDER BY k.place), @queue_id, 2, @worker_id, @now, 1,
       1, @now, @now, 0, NULL, 0, ISNULL(k.[their_Payload], 0x), 1,
       NULL, k.[their_Payload]
-- 232_look.sql
    FROM [dbo].[HeapQueue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK))
-- 240_finish.sql
    OUTPUT deleted.job_id, 0 INTO @found (job_id, dead)
-- 300_reap.sql
-- 350_sample.sql
    -- Up to 10,000 rows of [dbo].[HeapQueue] are counted; the oldest is the first in their order.
        FROM [dbo].[HeapQueue] AS t WITH (NOLOCK)) AS h);
        SET @due_at = (SELECT TOP (1) CAST(NULL AS datetime2(3))
            FROM [dbo].[HeapQueue] AS t WITH (NOLOCK));
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[HeapQueue] AS t WITH (NOLOCK))
-- 400_stats.sql
                               FROM [dbo].[HeapQueue] AS t WITH (NOLOCK)) AS c),
                          (SELECT TOP (1) CAST(NULL AS datetime2(3))
                           FROM [dbo].[HeapQueue] AS t WITH (NOLOCK))
-- 405_list_kinds.sql
            FROM [dbo].[HeapQueue] AS t WITH (NOLOCK)) AS r
-- 406_backlog.sql
            FROM [dbo].[HeapQueue] AS t WITH (NOLOCK)) AS c)
        FROM [dbo].[HeapQueue] AS t WITH (NOLOCK)
-- 430_requeue.sql
-- 437_run_again.sql
THROW 58003, N'the queue is the table dbo.HeapQueue; insert a new row for a job that is to run again', 1;
-- 440_purge.sql
    THROW 58003, N'the queue is the table dbo.HeapQueue; cancel its jobs, or delete its rows', 1;
-- 444_delete_queue.sql
THROW 58003, N'the queue is the table dbo.HeapQueue; run readpast adopt --remove to delete it', 1;
-- 470_set_schedule.sql
THROW 58003, N'the queue is the table dbo.HeapQueue; insert its rows by an Agent job, for example', 1;
-- 490_create_batch.sql
THROW 58003, N'the queue is the table dbo.HeapQueue, which has no batches', 1;
