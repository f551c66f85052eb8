-- 000_adopted_table.sql
DECLARE @id int = OBJECT_ID(N'[dbo].[four_queue]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
    THROW 58003, N'there is no table dbo.four_queue in this database, or this login may not see it', 1;
        (N'column id bigint 8 19 0 not null identity'),
        (N'column in_process bit 1 1 0 not null'),
        (N'column reputation int 4 10 0 not null'),
        (N'column scheduled_start_date datetime 8 23 3 null'),
        (N'column start_date datetime 8 23 3 null'),
        (N'column end_date datetime 8 23 3 null'),
        (N'column duration_milliseconds int 4 10 0 null computed'),
        (N'column app_server nvarchar 256 0 0 SQL_Latin1_General_CP1_CI_AS null'),
        (N'column attempts tinyint 1 3 0 not null'),
        (N'index readpast_ready, key 1: in_process'),
        (N'index readpast_ready, key 2: scheduled_start_date'),
        (N'index readpast_ready, key 3: id');
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (N'reputation'));
    SET @message = CONCAT(N'dbo.four_queue is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
-- 000_begin.sql
-- 095_adoption.sql
-- The adoption of [dbo].[four_queue]: its origin, and the columns of jobs that identify the row of a job.
    THROW 58003, N'schema four has queues of its own; choose another schema for the adoption', 1;
    WHERE table_name <> N'dbo.four_queue' OR queue <> N'four_queue')
    THROW 58003, N'schema four adopts another table or queue; remove that first, or choose another schema', 1;
IF NOT EXISTS (SELECT 1 FROM [four].[adoption] WHERE kept = N'a claim sets [in_process], [start_date], [end_date], [app_server], [attempts]; key [reputation]; jobs has [their_in_process] bit NULL, [their_reputation] int NULL, [their_start_date] datetime NULL, [their_end_date] datetime NULL, [their_app_server] nvarchar(128) COLLATE SQL_Latin1_General_CP1_CI_AS NULL, [their_attempts] tinyint NULL')
        THROW 58003, N'schema four has jobs of another mapping; finish them, or readpast adopt --remove', 1;
        THROW 58003, N'workers of dbo.four_queue are running; stop them first, or their claims would fail', 1;
IF COL_LENGTH(N'[four].[jobs]', N'their_in_process') IS NULL
    ALTER TABLE [four].[jobs] ADD [their_in_process] bit NULL;
IF COL_LENGTH(N'[four].[jobs]', N'their_reputation') IS NULL
    ALTER TABLE [four].[jobs] ADD [their_reputation] int NULL;
IF COL_LENGTH(N'[four].[jobs]', N'their_start_date') IS NULL
    ALTER TABLE [four].[jobs] ADD [their_start_date] datetime NULL;
IF COL_LENGTH(N'[four].[jobs]', N'their_end_date') IS NULL
    ALTER TABLE [four].[jobs] ADD [their_end_date] datetime NULL;
IF COL_LENGTH(N'[four].[jobs]', N'their_app_server') IS NULL
    ALTER TABLE [four].[jobs] ADD [their_app_server] nvarchar(128) COLLATE SQL_Latin1_General_CP1_CI_AS NULL;
IF COL_LENGTH(N'[four].[jobs]', N'their_attempts') IS NULL
    ALTER TABLE [four].[jobs] ADD [their_attempts] tinyint NULL;
    CREATE UNIQUE NONCLUSTERED INDEX jobs_their_key ON [four].[jobs] ([their_reputation])
        WHERE [their_reputation] IS NOT NULL
-- 096_refused_rows.sql
-- Ready rows of [dbo].[four_queue] that the server does not let claims change (note_refused): claims skip them.
        [their_reputation] int NULL,
        INDEX refused_rows_key UNIQUE NONCLUSTERED ([their_reputation])
-- 200_create_queue.sql
    THROW 58003, N'this schema adopts dbo.four_queue, and has only that queue', 1;
    THROW 58003, N'the queue is the table dbo.four_queue: its mapping has these settings, and it has no groups', 1;
    THROW 58003, N'the queue is the table dbo.four_queue, which cannot have max_running, rate_jobs, max_depth, age_after_ms or fair', 1;
-- 210_enqueue.sql
THROW 58003, N'the queue is the table dbo.four_queue; insert a row there to enqueue a job', 1;
-- 218_note_ends.sql
-- For procedures whose jobs fail or finish other than done, in their transaction: changes the rows of [dbo].[four_queue] as
    SET [attempts] = CASE WHEN j.attempt < 255 THEN j.attempt ELSE 255 END
    INNER LOOP JOIN [dbo].[four_queue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[reputation] = j.[their_reputation]
    SET [end_date] = NULL,
        [attempts] = 3
    INNER LOOP JOIN [dbo].[four_queue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[reputation] = j.[their_reputation]
    WHERE j.state IN (4, 5) AND t.[in_process] = 1
-- 220_enqueue_batch.sql
THROW 58003, N'the queue is the table dbo.four_queue; insert a row there to enqueue a job', 1;
-- 229_note_refused.sql
-- For claim, after the server has rejected its changes: finds the responsible rows among the first @max of [dbo].[four_queue].
DECLARE @worker nvarchar(128) = (SELECT w.name FROM [four].[workers] AS w WITH (NOLOCK) WHERE w.worker_id = @worker_id);
    [their_reputation] int NULL
    [their_id] bigint NULL,
    [their_in_process] bit NULL,
    [their_reputation] int NULL,
    [their_scheduled_start_date] datetime NULL,
    [their_start_date] datetime NULL,
    [their_end_date] datetime NULL,
    [their_app_server] nvarchar(128) COLLATE SQL_Latin1_General_CP1_CI_AS NULL,
    [their_attempts] tinyint NULL,
INSERT @first ([their_reputation])
SELECT TOP (@max) t.[reputation]
FROM [dbo].[four_queue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([readpast_ready]))
    WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation])
    ORDER BY [scheduled_start_date], [id]
        SET [in_process] = 1,
            [start_date] = SYSDATETIME(),
            [end_date] = DATEADD(DAY, 20, SYSDATETIME()),
            [app_server] = LEFT(@worker, 128),
            [attempts] = CASE WHEN t.[attempts] < 255 THEN t.[attempts] + 1 ELSE 255 END
        OUTPUT deleted.[id], deleted.[in_process], deleted.[reputation], deleted.[scheduled_start_date], deleted.[start_date], deleted.[end_date], deleted.[app_server], deleted.[attempts], CAST(CONCAT(CAST(N'{"id":' AS nvarchar(max)), CONVERT(nvarchar(50), deleted.[id]), N',"reputation":', CONVERT(nvarchar(50), deleted.[reputation]), N'}') AS varbinary(max)), CONCAT(N'{"reputation":"', CONVERT(nvarchar(50), deleted.[reputation]), N'"}')
        INTO @rows ([their_id], [their_in_process], [their_reputation], [their_scheduled_start_date], [their_start_date], [their_end_date], [their_app_server], [their_attempts], payload, headers)
        INNER LOOP JOIN [dbo].[four_queue] AS t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)
            ON k.[their_reputation] = t.[reputation]
        WHERE k.place = @place AND (t.[in_process] = 0 AND t.[scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND t.[attempts] < 3)
        SELECT CAST(k.[their_attempts] AS int) + 1, @now, @now, 0, NULL
    INSERT [four].[refused_rows] ([their_reputation], refused_at)
    SELECT k.[their_reputation], @now
            WHERE a.[their_reputation] = k.[their_reputation]);
            ON j.[their_reputation] = k.[their_reputation] AND j.[their_reputation] IS NOT NULL
        INSERT @rows ([their_id], [their_in_process], [their_reputation], [their_scheduled_start_date], [their_start_date], [their_end_date], [their_app_server], [their_attempts], payload, headers)
        SELECT t.[id], t.[in_process], t.[reputation], t.[scheduled_start_date], t.[start_date], t.[end_date], t.[app_server], t.[attempts], CAST(CONCAT(CAST(N'{"id":' AS nvarchar(max)), CONVERT(nvarchar(50), t.[id]), N',"reputation":', CONVERT(nvarchar(50), t.[reputation]), N'}') AS varbinary(max)), CASE WHEN DATALENGTH(CONCAT(N'{"reputation":"', CONVERT(nvarchar(50), t.[reputation]), N'"}')) <= 3000 THEN CONCAT(N'{"reputation":"', CONVERT(nvarchar(50), t.[reputation]), N'"}') END
        INNER LOOP JOIN [dbo].[four_queue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)
            ON k.[their_reputation] = t.[reputation]
                payload_utf16, payload, plain, headers, [their_in_process], [their_reputation], [their_start_date], [their_end_date], [their_app_server], [their_attempts])
               k.payload, 0, k.headers, k.[their_in_process], k.[their_reputation], k.[their_start_date], k.[their_end_date], k.[their_app_server], k.[their_attempts]
-- 230_claim.sql
-- Held jobs come first; the rest of the room is for rows of [dbo].[four_queue].
DECLARE @worker nvarchar(128) = (SELECT w.name FROM [four].[workers] AS w WITH (NOLOCK) WHERE w.worker_id = @worker_id);
    [their_id] bigint NULL,
    [their_in_process] bit NULL,
    [their_reputation] int NULL,
    [their_scheduled_start_date] datetime NULL,
    [their_start_date] datetime NULL,
    [their_end_date] datetime NULL,
    [their_app_server] nvarchar(128) COLLATE SQL_Latin1_General_CP1_CI_AS NULL,
    [their_attempts] tinyint NULL,
           [id], [in_process], [reputation], [scheduled_start_date], [start_date], [end_date], [app_server], [attempts]
    FROM [dbo].[four_queue] AS t
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([readpast_ready]))
    WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND (@some_refused = 0 OR NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation]))
    ORDER BY [scheduled_start_date], [id]
SET [in_process] = 1,
    [start_date] = SYSDATETIME(),
    [end_date] = DATEADD(DAY, 20, SYSDATETIME()),
    [app_server] = LEFT(@worker, 128),
    [attempts] = CASE WHEN [attempts] < 255 THEN [attempts] + 1 ELSE 255 END
OUTPUT deleted.[id], deleted.[in_process], deleted.[reputation], deleted.[scheduled_start_date], deleted.[start_date], deleted.[end_date], deleted.[app_server], deleted.[attempts], CAST(CONCAT(CAST(N'{"id":' AS nvarchar(max)), CONVERT(nvarchar(50), deleted.[id]), N',"reputation":', CONVERT(nvarchar(50), deleted.[reputation]), N'}') AS varbinary(max)), CONCAT(N'{"reputation":"', CONVERT(nvarchar(50), deleted.[reputation]), N'"}')
INTO @rows ([their_id], [their_in_process], [their_reputation], [their_scheduled_start_date], [their_start_date], [their_end_date], [their_app_server], [their_attempts], payload, headers)
    ON j.[their_reputation] = k.[their_reputation] AND j.[their_reputation] IS NOT NULL
    SET state = 2, ended = 0, alone = 0, fence = j.fence % 2147483647 + 1, attempt = CAST(k.[their_attempts] AS int) + 1,
        worker_id = @worker_id, claimed_at = @now, enqueued_at = @now, due_at = @now,
        [their_in_process] = k.[their_in_process],
        [their_start_date] = k.[their_start_date],
        [their_end_date] = k.[their_end_date],
        [their_app_server] = k.[their_app_server],
        [their_attempts] = k.[their_attempts]
       0,
       0,
        payload_utf16, payload, plain, headers, [their_in_process], [their_reputation], [their_start_date], [their_end_date], [their_app_server], [their_attempts])
       0,
       0,
SELECT NEXT VALUE FOR [four].[job_ids] OVER (ORDER BY k.[their_scheduled_start_date], k.[their_id]), @queue_id, 2, @worker_id, @now, 1,
       CAST(k.[their_attempts] AS int) + 1, @now, @now, 0, NULL, 1, k.payload, 0,
       k.headers, k.[their_in_process], k.[their_reputation], k.[their_start_date], k.[their_end_date], k.[their_app_server], k.[their_attempts]
-- 232_look.sql
    FROM [dbo].[four_queue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([readpast_ready])) WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation]))
-- 240_finish.sql
    batch_id bigint NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL, [their_reputation] int NULL);
    OUTPUT deleted.job_id, 0, deleted.[their_reputation] INTO @found (job_id, dead, [their_reputation])
        UPDATE t
        SET [end_date] = SYSDATETIME()
        INNER LOOP JOIN [dbo].[four_queue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[reputation] = d.[their_reputation]
        SET @message = CONCAT(ERROR_NUMBER(), N': error ', ERROR_NUMBER(), N' with its row of ', N'dbo.four_queue',
-- 250_release.sql
DECLARE @returned TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, [their_in_process] bit NULL,
    [their_reputation] int NULL,
    [their_start_date] datetime NULL,
    [their_end_date] datetime NULL,
    [their_app_server] nvarchar(128) COLLATE SQL_Latin1_General_CP1_CI_AS NULL,
    [their_attempts] tinyint NULL);
OUTPUT deleted.job_id, deleted.[their_in_process], deleted.[their_reputation], deleted.[their_start_date], deleted.[their_end_date], deleted.[their_app_server], deleted.[their_attempts]
INTO @returned (job_id, [their_in_process], [their_reputation], [their_start_date], [their_end_date], [their_app_server], [their_attempts])
    SET t.[in_process] = b.[their_in_process],
        t.[start_date] = b.[their_start_date],
        t.[end_date] = b.[their_end_date],
        t.[app_server] = b.[their_app_server],
        t.[attempts] = b.[their_attempts]
    INNER LOOP JOIN [dbo].[four_queue] AS t WITH (ROWLOCK, FORCESEEK) ON b.[their_reputation] = t.[reputation] AND t.[in_process] = 1
-- 350_sample.sql
    -- Up to 10,000 rows of [dbo].[four_queue] are counted; the oldest is the first in their order.
        FROM [dbo].[four_queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation])) AS h);
        SET @due_at = (SELECT TOP (1) CAST(NULL AS datetime2(3))
            FROM [dbo].[four_queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation])
    ORDER BY [scheduled_start_date], [id]);
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[four_queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation]))
-- 400_stats.sql
                               FROM [dbo].[four_queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation])) AS c),
                          (SELECT TOP (1) CAST(NULL AS datetime2(3))
                           FROM [dbo].[four_queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation])
    ORDER BY [scheduled_start_date], [id])
-- 405_list_kinds.sql
            FROM [dbo].[four_queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation])) AS r
-- 406_backlog.sql
            FROM [dbo].[four_queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation])) AS c)
        FROM [dbo].[four_queue] AS t WITH (NOLOCK, INDEX ([readpast_ready])) WHERE [in_process] = 0 AND [scheduled_start_date] <= CAST(SYSDATETIME() AS datetime) AND [attempts] < 3
        AND NOT EXISTS (SELECT 1 FROM [four].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_reputation] = t.[reputation])
-- 429_note_requeued.sql
-- For requeue, in its transaction: marks the rows of requeued jobs in [dbo].[four_queue] as a claim does. If the server
    SET [in_process] = 1,
        [start_date] = SYSDATETIME(),
        [end_date] = DATEADD(DAY, 20, SYSDATETIME()),
        [app_server] = LEFT(w.name, 128)
    LEFT JOIN [four].[workers] AS w WITH (NOLOCK) ON w.worker_id = j.worker_id
    INNER LOOP JOIN [dbo].[four_queue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[reputation] = j.[their_reputation]
    INNER LOOP JOIN [four].[refused_rows] AS a WITH (ROWLOCK, FORCESEEK) ON a.[their_reputation] = j.[their_reputation]
-- 430_requeue.sql
    DECLARE @unclaimed TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, [their_reputation] int NULL);
    OUTPUT deleted.job_id, deleted.[their_reputation] INTO @unclaimed (job_id, [their_reputation])
    INNER LOOP JOIN [four].[refused_rows] AS a WITH (ROWLOCK, FORCESEEK) ON a.[their_reputation] = u.[their_reputation]
        THROW 58003, N'the queue is the table dbo.four_queue; change its row, and requeue without a payload', 1;
-- 437_run_again.sql
THROW 58003, N'the queue is the table dbo.four_queue; insert a new row for a job that is to run again', 1;
-- 440_purge.sql
    THROW 58003, N'the queue is the table dbo.four_queue; cancel its jobs, or delete its rows', 1;
-- 444_delete_queue.sql
THROW 58003, N'the queue is the table dbo.four_queue; run readpast adopt --remove to delete it', 1;
-- 470_set_schedule.sql
THROW 58003, N'the queue is the table dbo.four_queue; insert its rows by an Agent job, for example', 1;
-- 490_create_batch.sql
THROW 58003, N'the queue is the table dbo.four_queue, which has no batches', 1;
