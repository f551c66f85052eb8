-- 000_adopted_table.sql
DECLARE @id int = OBJECT_ID(N'[dbo].[Outbox]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
    THROW 58003, N'there is no table dbo.Outbox in this database, or this login may not see it', 1;
        (N'column id bigint 8 19 0 not null identity'),
        (N'column type nvarchar 128 0 0 SQL_Latin1_General_CP1_CI_AS not null'),
        (N'column payload nvarchar -1 0 0 SQL_Latin1_General_CP1_CI_AS not null'),
        (N'column created_at datetime2 8 27 7 not null'),
        (N'column processed_at datetime2 8 27 7 null'),
        (N'index outbox_unprocessed, key 1: id'),
        (N'index outbox_unprocessed where ([processed_at] IS NULL)');
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (N'id'));
    SET @message = CONCAT(N'dbo.Outbox is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
-- 000_begin.sql
-- 095_adoption.sql
-- The adoption of [dbo].[Outbox]: its origin, and the columns of jobs that identify the row of a job.
    THROW 58003, N'schema outbox has queues of its own; choose another schema for the adoption', 1;
    WHERE table_name <> N'dbo.Outbox' OR queue <> N'outbox')
    THROW 58003, N'schema outbox adopts another table or queue; remove that first, or choose another schema', 1;
IF NOT EXISTS (SELECT 1 FROM [outbox].[adoption] WHERE kept = N'a claim sets [processed_at]; key [id]; jobs has [their_id] bigint NULL, [their_processed_at] datetime2(7) NULL')
        THROW 58003, N'schema outbox has jobs of another mapping; finish them, or readpast adopt --remove', 1;
        THROW 58003, N'workers of dbo.Outbox are running; stop them first, or their claims would fail', 1;
IF COL_LENGTH(N'[outbox].[jobs]', N'their_id') IS NULL
    ALTER TABLE [outbox].[jobs] ADD [their_id] bigint NULL;
IF COL_LENGTH(N'[outbox].[jobs]', N'their_processed_at') IS NULL
    ALTER TABLE [outbox].[jobs] ADD [their_processed_at] datetime2(7) NULL;
    CREATE UNIQUE NONCLUSTERED INDEX jobs_their_key ON [outbox].[jobs] ([their_id])
        WHERE [their_id] IS NOT NULL
-- 096_refused_rows.sql
-- Ready rows of [dbo].[Outbox] that the server does not let claims change (note_refused): claims skip them.
        [their_id] bigint NULL,
        INDEX refused_rows_key UNIQUE NONCLUSTERED ([their_id])
-- 200_create_queue.sql
    THROW 58003, N'this schema adopts dbo.Outbox, and has only that queue', 1;
    THROW 58003, N'the queue is the table dbo.Outbox: its mapping has these settings, and it has no groups', 1;
    THROW 58003, N'the queue is the table dbo.Outbox, which cannot have max_running, rate_jobs, max_depth, age_after_ms or fair', 1;
-- 210_enqueue.sql
THROW 58003, N'the queue is the table dbo.Outbox; insert a row there to enqueue a job', 1;
-- 218_note_ends.sql
-- For procedures whose jobs fail or finish other than done, in their transaction: changes the rows of [dbo].[Outbox] as
-- 220_enqueue_batch.sql
THROW 58003, N'the queue is the table dbo.Outbox; insert a row there to enqueue a job', 1;
-- 229_note_refused.sql
-- For claim, after the server has rejected its changes: finds the responsible rows among the first @max of [dbo].[Outbox].
    [their_id] bigint NULL
    [their_id] bigint NULL,
    [their_type] nvarchar(64) COLLATE SQL_Latin1_General_CP1_CI_AS NULL,
    [their_created_at] datetime2(7) NULL,
    [their_processed_at] datetime2(7) NULL,
INSERT @first ([their_id])
SELECT TOP (@max) t.[id]
FROM [dbo].[Outbox] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([outbox_unprocessed]))
    WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id])
    ORDER BY [id]
        SET [processed_at] = '9999-12-31T00:00:00'
        OUTPUT deleted.[id], deleted.[type], deleted.[created_at], deleted.[processed_at], ISNULL(CAST(deleted.[payload] AS varbinary(max)), 0x), CONCAT(N'{"id":"', CONVERT(nvarchar(50), deleted.[id]), N'"}')
        INTO @rows ([their_id], [their_type], [their_created_at], [their_processed_at], payload, headers)
        INNER LOOP JOIN [dbo].[Outbox] AS t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)
            ON k.[their_id] = t.[id]
        WHERE k.place = @place AND (t.[processed_at] IS NULL)
        SELECT 1, CAST(ISNULL(k.[their_created_at], @now) AS datetime2(3)), CAST(ISNULL(k.[their_created_at], @now) AS datetime2(3)), 0, CAST(NULLIF(LEFT(k.[their_type], 64), '') AS varchar(64))
    INSERT [outbox].[refused_rows] ([their_id], refused_at)
    SELECT k.[their_id], @now
            WHERE a.[their_id] = k.[their_id]);
            ON j.[their_id] = k.[their_id] AND j.[their_id] IS NOT NULL
        INSERT @rows ([their_id], [their_type], [their_created_at], [their_processed_at], payload, headers)
        SELECT t.[id], t.[type], t.[created_at], t.[processed_at], ISNULL(CAST(t.[payload] AS varbinary(max)), 0x), CASE WHEN DATALENGTH(CONCAT(N'{"id":"', CONVERT(nvarchar(50), t.[id]), N'"}')) <= 3000 THEN CONCAT(N'{"id":"', CONVERT(nvarchar(50), t.[id]), N'"}') END
        INNER LOOP JOIN [dbo].[Outbox] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)
            ON k.[their_id] = t.[id]
                payload_utf16, payload, plain, headers, [their_id], [their_processed_at])
               k.payload, 0, k.headers, k.[their_id], k.[their_processed_at]
-- 230_claim.sql
-- Held jobs come first; the rest of the room is for rows of [dbo].[Outbox].
    [their_id] bigint NULL,
    [their_type] nvarchar(64) COLLATE SQL_Latin1_General_CP1_CI_AS NULL,
    [their_created_at] datetime2(7) NULL,
    [their_processed_at] datetime2(7) NULL,
           [id], [type], [created_at], [processed_at], [payload]
    FROM [dbo].[Outbox] AS t
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([outbox_unprocessed]))
    WHERE [processed_at] IS NULL
        AND (@some_refused = 0 OR NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id]))
    ORDER BY [id]
SET [processed_at] = '9999-12-31T00:00:00'
OUTPUT deleted.[id], deleted.[type], deleted.[created_at], deleted.[processed_at], ISNULL(CAST(deleted.[payload] AS varbinary(max)), 0x), CONCAT(N'{"id":"', CONVERT(nvarchar(50), deleted.[id]), N'"}')
INTO @rows ([their_id], [their_type], [their_created_at], [their_processed_at], payload, headers)
    ON j.[their_id] = k.[their_id] AND j.[their_id] IS NOT NULL
        worker_id = @worker_id, claimed_at = @now, enqueued_at = CAST(ISNULL(k.[their_created_at], @now) AS datetime2(3)), due_at = CAST(ISNULL(k.[their_created_at], @now) AS datetime2(3)),
        priority = 0, kind = CAST(NULLIF(LEFT(k.[their_type], 64), '') AS varchar(64)), finished_at = NULL, run_us = NULL, cpu_us = NULL,
        [their_processed_at] = k.[their_processed_at]
       inserted.kind,
    INTO @answer (job_id, fence, attempt, priority, waited_ms, age_ms, payload_utf16, payload, kind, details)
        payload_utf16, payload, plain, headers, [their_id], [their_processed_at])
       inserted.kind,
INTO @answer (job_id, fence, attempt, priority, waited_ms, age_ms, payload_utf16, payload, kind, details)
SELECT NEXT VALUE FOR [outbox].[job_ids] OVER (ORDER BY k.[their_id]), @queue_id, 2, @worker_id, @now, 1,
       1, CAST(ISNULL(k.[their_created_at], @now) AS datetime2(3)), CAST(ISNULL(k.[their_created_at], @now) AS datetime2(3)), 0, CAST(NULLIF(LEFT(k.[their_type], 64), '') AS varchar(64)), 1, k.payload, 0,
       k.headers, k.[their_id], k.[their_processed_at]
-- 232_look.sql
    FROM [dbo].[Outbox] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([outbox_unprocessed])) WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id]))
-- 240_finish.sql
    batch_id bigint NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL, [their_id] bigint NULL);
    OUTPUT deleted.job_id, 0, deleted.[their_id] INTO @found (job_id, dead, [their_id])
        UPDATE t
        SET [processed_at] = SYSUTCDATETIME()
        INNER LOOP JOIN [dbo].[Outbox] AS t WITH (ROWLOCK, FORCESEEK) ON t.[id] = d.[their_id]
        SET @message = CONCAT(ERROR_NUMBER(), N': error ', ERROR_NUMBER(), N' with its row of ', N'dbo.Outbox',
-- 250_release.sql
DECLARE @returned TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, [their_id] bigint NULL,
    [their_processed_at] datetime2(7) NULL);
OUTPUT deleted.job_id, deleted.[their_id], deleted.[their_processed_at]
INTO @returned (job_id, [their_id], [their_processed_at])
    SET t.[processed_at] = b.[their_processed_at]
    INNER LOOP JOIN [dbo].[Outbox] AS t WITH (ROWLOCK, FORCESEEK) ON b.[their_id] = t.[id]
-- 350_sample.sql
    -- Up to 10,000 rows of [dbo].[Outbox] are counted; the oldest is the first in their order.
        FROM [dbo].[Outbox] AS t WITH (NOLOCK, INDEX ([outbox_unprocessed])) WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id])) AS h);
        SET @due_at = (SELECT TOP (1) CAST([created_at] AS datetime2(3))
            FROM [dbo].[Outbox] AS t WITH (NOLOCK, INDEX ([outbox_unprocessed])) WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id])
    ORDER BY [id]);
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[Outbox] AS t WITH (NOLOCK, INDEX ([outbox_unprocessed])) WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id]))
-- 400_stats.sql
                               FROM [dbo].[Outbox] AS t WITH (NOLOCK, INDEX ([outbox_unprocessed])) WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id])) AS c),
                          (SELECT TOP (1) CAST([created_at] AS datetime2(3))
                           FROM [dbo].[Outbox] AS t WITH (NOLOCK, INDEX ([outbox_unprocessed])) WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id])
    ORDER BY [id])
-- 405_list_kinds.sql
      FROM (SELECT TOP (@most) CAST(LEFT([type], 64) AS varchar(64)) COLLATE Latin1_General_100_BIN2 AS kind
            FROM [dbo].[Outbox] AS t WITH (NOLOCK, INDEX ([outbox_unprocessed])) WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id])) AS r
-- 406_backlog.sql
            FROM [dbo].[Outbox] AS t WITH (NOLOCK, INDEX ([outbox_unprocessed])) WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id])) AS c)
        SELECT TOP (1000) 4, 0, CAST(LEFT([type], 64) AS varchar(64)) COLLATE Latin1_General_100_BIN2, 1
        FROM [dbo].[Outbox] AS t WITH (NOLOCK, INDEX ([outbox_unprocessed])) WHERE [processed_at] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [outbox].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_id] = t.[id])
-- 429_note_requeued.sql
-- For requeue, in its transaction: marks the rows of requeued jobs in [dbo].[Outbox] as a claim does. If the server
    SET [processed_at] = '9999-12-31T00:00:00'
    INNER LOOP JOIN [dbo].[Outbox] AS t WITH (ROWLOCK, FORCESEEK) ON t.[id] = j.[their_id]
    INNER LOOP JOIN [outbox].[refused_rows] AS a WITH (ROWLOCK, FORCESEEK) ON a.[their_id] = j.[their_id]
-- 430_requeue.sql
    DECLARE @unclaimed TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, [their_id] bigint NULL);
    OUTPUT deleted.job_id, deleted.[their_id] INTO @unclaimed (job_id, [their_id])
    INNER LOOP JOIN [outbox].[refused_rows] AS a WITH (ROWLOCK, FORCESEEK) ON a.[their_id] = u.[their_id]
        THROW 58003, N'the queue is the table dbo.Outbox; change its row, and requeue without a payload', 1;
-- 437_run_again.sql
THROW 58003, N'the queue is the table dbo.Outbox; insert a new row for a job that is to run again', 1;
-- 440_purge.sql
    THROW 58003, N'the queue is the table dbo.Outbox; cancel its jobs, or delete its rows', 1;
-- 444_delete_queue.sql
THROW 58003, N'the queue is the table dbo.Outbox; run readpast adopt --remove to delete it', 1;
-- 470_set_schedule.sql
THROW 58003, N'the queue is the table dbo.Outbox; insert its rows by an Agent job, for example', 1;
-- 490_create_batch.sql
THROW 58003, N'the queue is the table dbo.Outbox, which has no batches', 1;
