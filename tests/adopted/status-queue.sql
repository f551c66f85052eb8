-- 000_adopted_table.sql
DECLARE @id int = OBJECT_ID(N'[dbo].[Queue]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
    THROW 58003, N'there is no table dbo.Queue in this database, or this login may not see it', 1;
        (N'column Id int 4 10 0 not null identity'),
        (N'column Status tinyint 1 3 0 not null'),
        (N'column Message varbinary -1 0 0 null'),
        (N'index readpast_ready, key 1: Status'),
        (N'index readpast_ready, key 2: Id');
    SET @message = CONCAT(N'dbo.Queue is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
-- 000_begin.sql
-- 095_adoption.sql
-- The adoption of [dbo].[Queue]: its origin, and the columns of jobs that identify the row of a job.
    THROW 58003, N'schema messages has queues of its own; choose another schema for the adoption', 1;
    WHERE table_name <> N'dbo.Queue' OR queue <> N'messages')
    THROW 58003, N'schema messages adopts another table or queue; remove that first, or choose another schema', 1;
IF NOT EXISTS (SELECT 1 FROM [messages].[adoption] WHERE kept = N'a claim sets [Status]; key [Id]; jobs has [their_Id] int NULL, [their_Status] tinyint NULL')
        THROW 58003, N'schema messages has jobs of another mapping; finish them, or readpast adopt --remove', 1;
        THROW 58003, N'workers of dbo.Queue are running; stop them first, or their claims would fail', 1;
    ALTER TABLE [messages].[jobs] ADD [their_Id] int NULL;
IF COL_LENGTH(N'[messages].[jobs]', N'their_Status') IS NULL
    ALTER TABLE [messages].[jobs] ADD [their_Status] tinyint NULL;
-- 096_refused_rows.sql
-- Ready rows of [dbo].[Queue] that the server does not let claims change (note_refused): claims skip them.
        [their_Id] int NULL,
-- 200_create_queue.sql
    THROW 58003, N'this schema adopts dbo.Queue, and has only that queue', 1;
    THROW 58003, N'the queue is the table dbo.Queue: its mapping has these settings, and it has no groups', 1;
    THROW 58003, N'the queue is the table dbo.Queue, which cannot have max_running, rate_jobs, max_depth, age_after_ms or fair', 1;
-- 210_enqueue.sql
THROW 58003, N'the queue is the table dbo.Queue; insert a row there to enqueue a job', 1;
-- 218_note_ends.sql
-- For procedures whose jobs fail or finish other than done, in their transaction: changes the rows of [dbo].[Queue] as
    SET [Status] = 3
    INNER LOOP JOIN [dbo].[Queue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = j.[their_Id]
    WHERE j.state IN (4, 5) AND t.[Status] = 2
-- 220_enqueue_batch.sql
THROW 58003, N'the queue is the table dbo.Queue; insert a row there to enqueue a job', 1;
-- 229_note_refused.sql
-- For claim, after the server has rejected its changes: finds the responsible rows among the first @max of [dbo].[Queue].
    [their_Id] int NULL
    [their_Id] int NULL,
    [their_Status] tinyint NULL,
FROM [dbo].[Queue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([readpast_ready]))
    WHERE [Status] = 1
    ORDER BY [Id]
        SET [Status] = 2
        OUTPUT deleted.[Id], deleted.[Status], ISNULL(deleted.[Message], 0x), CONCAT(N'{"Id":"', CONVERT(nvarchar(50), deleted.[Id]), N'"}')
        INTO @rows ([their_Id], [their_Status], payload, headers)
        INNER LOOP JOIN [dbo].[Queue] AS t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)
        WHERE k.place = @place AND (t.[Status] = 1)
        SELECT 1, @now, @now, 0, NULL
        INSERT @rows ([their_Id], [their_Status], payload, headers)
        SELECT t.[Id], t.[Status], ISNULL(t.[Message], 0x), CASE WHEN DATALENGTH(CONCAT(N'{"Id":"', CONVERT(nvarchar(50), t.[Id]), N'"}')) <= 3000 THEN CONCAT(N'{"Id":"', CONVERT(nvarchar(50), t.[Id]), N'"}') END
        INNER LOOP JOIN [dbo].[Queue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)
                payload_utf16, payload, plain, headers, [their_Id], [their_Status])
        SELECT NEXT VALUE FOR [messages].[job_ids], @queue_id, 4, 1, 0, 0, @now, @now, 0, @now, @error, 0,
               k.payload, 0, k.headers, k.[their_Id], k.[their_Status]
-- 230_claim.sql
-- Held jobs come first; the rest of the room is for rows of [dbo].[Queue].
    [their_Id] int NULL,
    [their_Status] tinyint NULL,
           [Id], [Status], [Message]
    FROM [dbo].[Queue] AS t
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([readpast_ready]))
    WHERE [Status] = 1
    ORDER BY [Id]
SET [Status] = 2
OUTPUT deleted.[Id], deleted.[Status], ISNULL(deleted.[Message], 0x), CONCAT(N'{"Id":"', CONVERT(nvarchar(50), deleted.[Id]), N'"}')
INTO @rows ([their_Id], [their_Status], payload, headers)
        worker_id = @worker_id, claimed_at = @now, enqueued_at = @now, due_at = @now,
        payload_utf16 = 0, payload = k.payload,
        [their_Status] = k.[their_Status]
       0,
       0,
        payload_utf16, payload, plain, headers, [their_Id], [their_Status])
       0,
       0,
SELECT NEXT VALUE FOR [messages].[job_ids] OVER (ORDER BY k.[their_Id]), @queue_id, 2, @worker_id, @now, 1,
       1, @now, @now, 0, NULL, 0, k.payload, 0,
       k.headers, k.[their_Id], k.[their_Status]
-- 232_look.sql
    FROM [dbo].[Queue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([readpast_ready])) WHERE [Status] = 1
-- 240_finish.sql
    batch_id bigint NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL, [their_Id] int NULL);
        INNER LOOP JOIN [dbo].[Queue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = d.[their_Id]
        SET @message = CONCAT(ERROR_NUMBER(), N': error ', ERROR_NUMBER(), N' with its row of ', N'dbo.Queue',
-- 250_release.sql
DECLARE @returned TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, [their_Id] int NULL,
    [their_Status] tinyint NULL);
OUTPUT deleted.job_id, deleted.[their_Id], deleted.[their_Status]
INTO @returned (job_id, [their_Id], [their_Status])
    SET t.[Status] = b.[their_Status]
    INNER LOOP JOIN [dbo].[Queue] AS t WITH (ROWLOCK, FORCESEEK) ON b.[their_Id] = t.[Id] AND t.[Status] = 2
-- 350_sample.sql
    -- Up to 10,000 rows of [dbo].[Queue] are counted; the oldest is the first in their order.
        FROM [dbo].[Queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [Status] = 1
        SET @due_at = (SELECT TOP (1) CAST(NULL AS datetime2(3))
            FROM [dbo].[Queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [Status] = 1
    ORDER BY [Id]);
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[Queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [Status] = 1
-- 400_stats.sql
                               FROM [dbo].[Queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [Status] = 1
                          (SELECT TOP (1) CAST(NULL AS datetime2(3))
                           FROM [dbo].[Queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [Status] = 1
    ORDER BY [Id])
-- 405_list_kinds.sql
            FROM [dbo].[Queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [Status] = 1
-- 406_backlog.sql
            FROM [dbo].[Queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [Status] = 1
        FROM [dbo].[Queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [Status] = 1
-- 429_note_requeued.sql
-- For requeue, in its transaction: marks the rows of requeued jobs in [dbo].[Queue] as a claim does. If the server
    SET [Status] = 2
    INNER LOOP JOIN [dbo].[Queue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = j.[their_Id]
-- 430_requeue.sql
    DECLARE @unclaimed TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, [their_Id] int NULL);
        THROW 58003, N'the queue is the table dbo.Queue; change its row, and requeue without a payload', 1;
-- 437_run_again.sql
THROW 58003, N'the queue is the table dbo.Queue; insert a new row for a job that is to run again', 1;
-- 440_purge.sql
    THROW 58003, N'the queue is the table dbo.Queue; cancel its jobs, or delete its rows', 1;
-- 444_delete_queue.sql
THROW 58003, N'the queue is the table dbo.Queue; run readpast adopt --remove to delete it', 1;
-- 470_set_schedule.sql
THROW 58003, N'the queue is the table dbo.Queue; insert its rows by an Agent job, for example', 1;
-- 490_create_batch.sql
THROW 58003, N'the queue is the table dbo.Queue, which has no batches', 1;
