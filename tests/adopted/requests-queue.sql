-- 000_adopted_table.sql
DECLARE @id int = OBJECT_ID(N'[dbo].[RequestsQueue]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
    THROW 58003, N'there is no table dbo.RequestsQueue in this database, or this login may not see it', 1;
        (N'column id uniqueidentifier 16 0 0 not null'),
        (N'column request varchar 512 0 0 SQL_Latin1_General_CP1_CI_AS not null'),
        (N'column InsertedDate datetime 8 23 3 not null');
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (N''));
    SET @message = CONCAT(N'dbo.RequestsQueue is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
DECLARE @id int = OBJECT_ID(N'[dbo].[RequestsCompleted]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
    THROW 58003, N'there is no table dbo.RequestsCompleted in this database, or this login may not see it', 1;
        (N'column id uniqueidentifier 16 0 0 not null'),
        (N'column request varchar 512 0 0 SQL_Latin1_General_CP1_CI_AS not null'),
        (N'column InsertedDate datetime 8 23 3 not null'),
        (N'column RemovedDate datetime 8 23 3 not null'),
        (N'column CompletedDate datetime 8 23 3 null');
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (N''));
    SET @message = CONCAT(N'dbo.RequestsCompleted is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
-- 000_begin.sql
-- 095_adoption.sql
-- The adoption of [dbo].[RequestsQueue]: its origin, and the columns of jobs that identify the row of a job.
    THROW 58003, N'schema requests has queues of its own; choose another schema for the adoption', 1;
    WHERE table_name <> N'dbo.RequestsQueue' OR queue <> N'RequestsQueue')
    THROW 58003, N'schema requests adopts another table or queue; remove that first, or choose another schema', 1;
IF NOT EXISTS (SELECT 1 FROM [requests].[adoption] WHERE kept = N'a claim deletes; key ; jobs has [their_id] uniqueidentifier NULL, [their_request] varchar(512) COLLATE SQL_Latin1_General_CP1_CI_AS NULL, [their_InsertedDate] datetime NULL')
        THROW 58003, N'schema requests has jobs of another mapping; finish them, or readpast adopt --remove', 1;
        THROW 58003, N'workers of dbo.RequestsQueue are running; stop them first, or their claims would fail', 1;
IF COL_LENGTH(N'[requests].[jobs]', N'their_id') IS NULL
    ALTER TABLE [requests].[jobs] ADD [their_id] uniqueidentifier NULL;
IF COL_LENGTH(N'[requests].[jobs]', N'their_request') IS NULL
    ALTER TABLE [requests].[jobs] ADD [their_request] varchar(512) COLLATE SQL_Latin1_General_CP1_CI_AS NULL;
IF COL_LENGTH(N'[requests].[jobs]', N'their_InsertedDate') IS NULL
    ALTER TABLE [requests].[jobs] ADD [their_InsertedDate] datetime NULL;
-- 200_create_queue.sql
    THROW 58003, N'this schema adopts dbo.RequestsQueue, and has only that queue', 1;
    THROW 58003, N'the queue is the table dbo.RequestsQueue: its mapping has these settings, and it has no groups', 1;
    THROW 58003, N'the queue is the table dbo.RequestsQueue, which cannot have max_running, rate_jobs, max_depth, age_after_ms or fair', 1;
-- 210_enqueue.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue; insert a row there to enqueue a job', 1;
-- 218_note_ends.sql
-- For procedures whose jobs fail or finish other than done, in their transaction: changes the rows of [dbo].[RequestsQueue] as
    INSERT [dbo].[RequestsCompleted] ([id], [request], [InsertedDate], [RemovedDate])
    SELECT j.[their_id], j.[their_request], j.[their_InsertedDate], DATEADD(MINUTE, DATEDIFF(MINUTE, GETUTCDATE(), GETDATE()), j.claimed_at)
-- 220_enqueue_batch.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue; insert a row there to enqueue a job', 1;
-- 230_claim.sql
-- Held jobs come first; the rest of the room is for rows of [dbo].[RequestsQueue].
    [their_id] uniqueidentifier NULL,
    [their_request] varchar(512) COLLATE SQL_Latin1_General_CP1_CI_AS NULL,
    [their_InsertedDate] datetime NULL
           [id], [request], [InsertedDate]
    FROM [dbo].[RequestsQueue] AS t
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK)
DELETE next_rows
OUTPUT deleted.[id], deleted.[request], deleted.[InsertedDate]
INTO @rows ([their_id], [their_request], [their_InsertedDate])
        payload_utf16, payload, plain, headers, [their_id], [their_request], [their_InsertedDate])
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END
INTO @answer (job_id, fence, attempt, priority, waited_ms, age_ms, payload_utf16, payload)
SELECT NEXT VALUE FOR [requests].[job_ids] OVER (ORDER BY k.place), @queue_id, 2, @worker_id, @now, 1,
       1, CAST(ISNULL(DATEADD(MINUTE, DATEDIFF(MINUTE, GETDATE(), GETUTCDATE()), k.[their_InsertedDate]), @now) AS datetime2(3)), CAST(ISNULL(DATEADD(MINUTE, DATEDIFF(MINUTE, GETDATE(), GETUTCDATE()), k.[their_InsertedDate]), @now) AS datetime2(3)), 0, NULL, 1, ISNULL(CAST(CAST(CAST(k.[their_request] AS nvarchar(max)) AS nvarchar(max)) AS varbinary(max)), 0x), 1,
       NULL, k.[their_id], k.[their_request], k.[their_InsertedDate]
-- 232_look.sql
    FROM [dbo].[RequestsQueue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK))
-- 240_finish.sql
    batch_id bigint NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL, claimed_at datetime2(3) NULL, [their_id] uniqueidentifier NULL, [their_request] varchar(512) COLLATE SQL_Latin1_General_CP1_CI_AS NULL, [their_InsertedDate] datetime NULL);
    OUTPUT deleted.job_id, 0, deleted.claimed_at, deleted.[their_id], deleted.[their_request], deleted.[their_InsertedDate] INTO @found (job_id, dead, claimed_at, [their_id], [their_request], [their_InsertedDate])
        INSERT [dbo].[RequestsCompleted] ([id], [request], [InsertedDate], [RemovedDate], [CompletedDate])
        SELECT d.[their_id], d.[their_request], d.[their_InsertedDate], DATEADD(MINUTE, DATEDIFF(MINUTE, GETUTCDATE(), GETDATE()), d.claimed_at), GETDATE()
        SET @message = CONCAT(ERROR_NUMBER(), N': error ', ERROR_NUMBER(), N' with its row of ', N'dbo.RequestsQueue',
-- 300_reap.sql
-- 350_sample.sql
    -- Up to 10,000 rows of [dbo].[RequestsQueue] are counted; the oldest is the first in their order.
        FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK)) AS h);
        SET @due_at = (SELECT TOP (1) CAST(DATEADD(MINUTE, DATEDIFF(MINUTE, GETDATE(), GETUTCDATE()), [InsertedDate]) AS datetime2(3))
            FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK));
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK))
-- 400_stats.sql
                               FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK)) AS c),
                          (SELECT TOP (1) CAST(DATEADD(MINUTE, DATEDIFF(MINUTE, GETDATE(), GETUTCDATE()), [InsertedDate]) AS datetime2(3))
                           FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK))
-- 405_list_kinds.sql
            FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK)) AS r
-- 406_backlog.sql
            FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK)) AS c)
        FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK)
-- 430_requeue.sql
IF @tried_again > 0
    SELECT @tried_again AS requeued;
    RETURN 0;
THROW 58003, N'this queue is the table dbo.RequestsQueue, from which the row of a dead job has been removed (dead.move): to run it again, insert it there', 1;
-- 437_run_again.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue; insert a new row for a job that is to run again', 1;
-- 440_purge.sql
    THROW 58003, N'the queue is the table dbo.RequestsQueue; cancel its jobs, or delete its rows', 1;
-- 444_delete_queue.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue; run readpast adopt --remove to delete it', 1;
-- 470_set_schedule.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue; insert its rows by an Agent job, for example', 1;
-- 490_create_batch.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue, which has no batches', 1;
