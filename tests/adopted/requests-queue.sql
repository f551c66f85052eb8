-- 000_adopted_table.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Stops if the table has changed since this script was made from it; then make the script again.
DECLARE @id int = OBJECT_ID(N'[dbo].[RequestsQueue]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
IF @id IS NULL
    THROW 58003, N'there is no table dbo.RequestsQueue in this database, or this login may not see it', 1;

DECLARE @was TABLE (line nvarchar(1000) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @keys TABLE (index_id int NOT NULL, ordinal int NOT NULL,
    name nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    direction nvarchar(5) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @usable TABLE (index_id int NOT NULL, name nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    is_unique bit NOT NULL, filter nvarchar(max) COLLATE Latin1_General_100_BIN2 NULL);
-- may_be_new: additional indexes are allowed.
DECLARE @is_now TABLE (line nvarchar(1000) COLLATE Latin1_General_100_BIN2 NOT NULL, may_be_new bit NOT NULL);

INSERT @was (line)
VALUES
        (N'column id uniqueidentifier 16 0 0 not null'),
        (N'column request varchar 512 0 0 SQL_Latin1_General_CP1_CI_AS not null'),
        (N'column InsertedDate datetime 8 23 3 not null');
INSERT @usable (index_id, name, is_unique, filter)
SELECT i.index_id, CASE i.index_id WHEN 1 THEN N'clustered' ELSE i.name END, i.is_unique, i.filter_definition
FROM sys.indexes AS i
WHERE i.object_id = @id AND i.type IN (1, 2) AND i.is_disabled = 0 AND i.is_hypothetical = 0;
INSERT @keys (index_id, ordinal, name, direction)
SELECT ic.index_id, ic.key_ordinal, c.name, CASE ic.is_descending_key WHEN 1 THEN N' desc' ELSE N'' END
FROM sys.index_columns AS ic
INNER JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
WHERE ic.object_id = @id AND ic.key_ordinal > 0;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'column ', c.name, N' ', t.name, N' ', c.max_length, N' ', c.precision, N' ', c.scale,
              N' ' + c.collation_name, CASE c.is_nullable WHEN 1 THEN N' null' ELSE N' not null' END,
              CASE c.is_identity WHEN 1 THEN N' identity' ELSE N'' END,
              CASE c.is_computed WHEN 1 THEN N' computed' ELSE N'' END), 0
FROM sys.columns AS c
LEFT JOIN sys.types AS t ON t.user_type_id = c.system_type_id
WHERE c.object_id = @id;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'trigger ', g.name), 0 FROM sys.triggers AS g WHERE g.parent_id = @id AND g.is_disabled = 0;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'index ', u.name, N', key ', k.ordinal, N': ', k.name, k.direction), 1
FROM @usable AS u
INNER JOIN @keys AS k ON k.index_id = u.index_id;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'index ', u.name, N' where ', u.filter), 1 FROM @usable AS u WHERE u.filter IS NOT NULL;
INSERT @is_now (line, may_be_new)
SELECT N'unique index on the key', 1
FROM @usable AS u
WHERE u.is_unique = 1 AND u.filter IS NULL
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (N''));

SELECT TOP (1) @differs = d.line
FROM (SELECT CONCAT(w.line, N' is not there') AS line FROM @was AS w
      WHERE NOT EXISTS (SELECT 1 FROM @is_now AS n WHERE n.line = w.line)
      UNION ALL
      SELECT CONCAT(n.line, N' is new') FROM @is_now AS n
      WHERE n.may_be_new = 0 AND NOT EXISTS (SELECT 1 FROM @was AS w WHERE w.line = n.line)) AS d
ORDER BY d.line DESC;
IF @differs IS NOT NULL
BEGIN
    SET @message = CONCAT(N'dbo.RequestsQueue is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
    THROW 58003, @message, 1;
END;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Stops if the table has changed since this script was made from it; then make the script again.
DECLARE @id int = OBJECT_ID(N'[dbo].[RequestsCompleted]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
IF @id IS NULL
    THROW 58003, N'there is no table dbo.RequestsCompleted in this database, or this login may not see it', 1;

DECLARE @was TABLE (line nvarchar(1000) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @keys TABLE (index_id int NOT NULL, ordinal int NOT NULL,
    name nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    direction nvarchar(5) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @usable TABLE (index_id int NOT NULL, name nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    is_unique bit NOT NULL, filter nvarchar(max) COLLATE Latin1_General_100_BIN2 NULL);
-- may_be_new: additional indexes are allowed.
DECLARE @is_now TABLE (line nvarchar(1000) COLLATE Latin1_General_100_BIN2 NOT NULL, may_be_new bit NOT NULL);

INSERT @was (line)
VALUES
        (N'column id uniqueidentifier 16 0 0 not null'),
        (N'column request varchar 512 0 0 SQL_Latin1_General_CP1_CI_AS not null'),
        (N'column InsertedDate datetime 8 23 3 not null'),
        (N'column RemovedDate datetime 8 23 3 not null'),
        (N'column CompletedDate datetime 8 23 3 null');
INSERT @usable (index_id, name, is_unique, filter)
SELECT i.index_id, CASE i.index_id WHEN 1 THEN N'clustered' ELSE i.name END, i.is_unique, i.filter_definition
FROM sys.indexes AS i
WHERE i.object_id = @id AND i.type IN (1, 2) AND i.is_disabled = 0 AND i.is_hypothetical = 0;
INSERT @keys (index_id, ordinal, name, direction)
SELECT ic.index_id, ic.key_ordinal, c.name, CASE ic.is_descending_key WHEN 1 THEN N' desc' ELSE N'' END
FROM sys.index_columns AS ic
INNER JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
WHERE ic.object_id = @id AND ic.key_ordinal > 0;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'column ', c.name, N' ', t.name, N' ', c.max_length, N' ', c.precision, N' ', c.scale,
              N' ' + c.collation_name, CASE c.is_nullable WHEN 1 THEN N' null' ELSE N' not null' END,
              CASE c.is_identity WHEN 1 THEN N' identity' ELSE N'' END,
              CASE c.is_computed WHEN 1 THEN N' computed' ELSE N'' END), 0
FROM sys.columns AS c
LEFT JOIN sys.types AS t ON t.user_type_id = c.system_type_id
WHERE c.object_id = @id;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'trigger ', g.name), 0 FROM sys.triggers AS g WHERE g.parent_id = @id AND g.is_disabled = 0;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'index ', u.name, N', key ', k.ordinal, N': ', k.name, k.direction), 1
FROM @usable AS u
INNER JOIN @keys AS k ON k.index_id = u.index_id;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'index ', u.name, N' where ', u.filter), 1 FROM @usable AS u WHERE u.filter IS NOT NULL;
INSERT @is_now (line, may_be_new)
SELECT N'unique index on the key', 1
FROM @usable AS u
WHERE u.is_unique = 1 AND u.filter IS NULL
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (N''));

SELECT TOP (1) @differs = d.line
FROM (SELECT CONCAT(w.line, N' is not there') AS line FROM @was AS w
      WHERE NOT EXISTS (SELECT 1 FROM @is_now AS n WHERE n.line = w.line)
      UNION ALL
      SELECT CONCAT(n.line, N' is new') FROM @is_now AS n
      WHERE n.may_be_new = 0 AND NOT EXISTS (SELECT 1 FROM @was AS w WHERE w.line = n.line)) AS d
ORDER BY d.line DESC;
IF @differs IS NOT NULL
BEGIN
    SET @message = CONCAT(N'dbo.RequestsCompleted is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
    THROW 58003, @message, 1;
END;
GO

-- 000_begin.sql
-- 095_adoption.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The adoption of [dbo].[RequestsQueue]: its origin, and the columns of jobs that identify the row of a job.
IF OBJECT_ID(N'[requests].[adoption]', N'U') IS NULL AND EXISTS (SELECT 1 FROM [requests].[queues])
    THROW 58003, N'schema requests has queues of its own; choose another schema for the adoption', 1;
IF OBJECT_ID(N'[requests].[adoption]', N'U') IS NULL
    CREATE TABLE [requests].[adoption]
    (
        queue      nvarchar(128) NOT NULL,
        table_name nvarchar(517) NOT NULL,
        mapping    nvarchar(max) NOT NULL,
        facts      nvarchar(max) NOT NULL,  -- the table at that time: a line for each column, index and so on
        kept       nvarchar(max) NOT NULL,  -- the columns of jobs for it
        give_back  nvarchar(max) NOT NULL,  -- the statements that restore the held rows
        adopted_at datetime2(3)  NOT NULL CONSTRAINT adoption_adopted_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT adoption_pk PRIMARY KEY CLUSTERED (queue)
    );
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
IF EXISTS (SELECT 1 FROM [requests].[adoption]
    WHERE table_name <> N'dbo.RequestsQueue' OR queue <> N'RequestsQueue')
    THROW 58003, N'schema requests adopts another table or queue; remove that first, or choose another schema', 1;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The procedures rely on the kept columns, so these change only while there are no jobs, and no claim comes in between.
IF NOT EXISTS (SELECT 1 FROM [requests].[adoption] WHERE kept = N'a claim deletes; key ; jobs has [their_id] uniqueidentifier NULL, [their_request] varchar(512) COLLATE SQL_Latin1_General_CP1_CI_AS NULL, [their_InsertedDate] datetime NULL')
BEGIN
    DECLARE @drop nvarchar(max);
    BEGIN TRANSACTION;
    IF EXISTS (SELECT 1 FROM [requests].[jobs] WITH (TABLOCKX, HOLDLOCK))
        THROW 58003, N'schema requests has jobs of another mapping; finish them, or readpast adopt --remove', 1;
    IF EXISTS (SELECT 1 FROM [requests].[workers] WHERE lost_at IS NULL AND lease_until >= SYSUTCDATETIME())
        THROW 58003, N'workers of dbo.RequestsQueue are running; stop them first, or their claims would fail', 1;
    DROP PROCEDURE IF EXISTS [requests].[claim];
    DROP TABLE IF EXISTS [requests].[refused_rows];
    DROP INDEX IF EXISTS jobs_their_key ON [requests].[jobs];
    WHILE 1 = 1
    BEGIN
        SELECT TOP (1) @drop = N'ALTER TABLE [requests].[jobs] DROP COLUMN ' + QUOTENAME(name)
        FROM sys.columns
        WHERE object_id = OBJECT_ID(N'[requests].[jobs]') AND LEFT(name, 6) = N'their_';
        IF @@ROWCOUNT = 0
            BREAK;
        EXEC sys.sp_executesql @drop;
    END;
    COMMIT TRANSACTION;
END;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Until the last script, --check reports an incomplete installation.
UPDATE [requests].[adoption] SET facts = N'';
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- NULL in all rows, so that a column can be added at any time.
IF COL_LENGTH(N'[requests].[jobs]', N'their_id') IS NULL
    ALTER TABLE [requests].[jobs] ADD [their_id] uniqueidentifier NULL;
IF COL_LENGTH(N'[requests].[jobs]', N'their_request') IS NULL
    ALTER TABLE [requests].[jobs] ADD [their_request] varchar(512) COLLATE SQL_Latin1_General_CP1_CI_AS NULL;
IF COL_LENGTH(N'[requests].[jobs]', N'their_InsertedDate') IS NULL
    ALTER TABLE [requests].[jobs] ADD [their_InsertedDate] datetime NULL;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO

-- 200_create_queue.sql
IF EXISTS (SELECT 1 FROM [requests].[adoption] WHERE queue <> @queue)
    THROW 58003, N'this schema adopts dbo.RequestsQueue, and has only that queue', 1;
IF @completion <> 'delete' OR @delivery <> 'at_least_once' OR @claim_order <> 'fifo' OR @keep_done_s > 0
    OR @group_limit > 1 OR @retry_passes = 1 OR @dead_queue <> N''
    THROW 58003, N'the queue is the table dbo.RequestsQueue: its mapping has these settings, and it has no groups', 1;
IF @max_running > 0 OR @rate_jobs > 0
    THROW 58003, N'the queue is the table dbo.RequestsQueue, which cannot have max_running or rate_jobs', 1;
-- 210_enqueue.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue; insert a row there to enqueue a job', 1;
-- 218_note_ends.sql
-- For procedures whose jobs fail or finish other than done, in their transaction: changes the rows of [dbo].[RequestsQueue] as
-- the mapping says. The caller has locked and changed the jobs: a dead (4) or cancelled (5) job has finished; a waiting
-- one (0, 1) with state 1 in @members has failed and will be retried. If the server rejects a row (a constraint, a text
-- that is too long), the job finishes anyway: the row stays, and the job's error says so. An adopted table has no
-- batches or groups, which this procedure is for otherwise.
SET NOCOUNT ON;
SET XACT_ABORT OFF;  -- so that a rejected row does not end the transaction
DECLARE @refusal nvarchar(2048), @id bigint;
DECLARE @one [requests].[member_list];
SAVE TRANSACTION their_rows;
BEGIN TRY
    INSERT [dbo].[RequestsCompleted] ([id], [request], [InsertedDate], [RemovedDate])
    SELECT j.[their_id], j.[their_request], j.[their_InsertedDate], DATEADD(MINUTE, DATEDIFF(MINUTE, GETUTCDATE(), GETDATE()), j.claimed_at)
    FROM @members AS m
    INNER LOOP JOIN [requests].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
    WHERE j.state IN (4, 5)
    RETURN 0;
END TRY
BEGIN CATCH
    -- Values that a column or constraint rejects. Any other error goes to the caller.
    IF XACT_STATE() <> 1 OR ERROR_NUMBER() NOT IN (220, 232, 241, 242, 244, 245, 248, 295, 511, 513, 515, 517, 535, 536, 537, 547, 1946, 2601, 2627, 2628, 8114, 8115, 8134, 8152, 8169, 8170)
        SET XACT_ABORT ON;
        THROW;
    SET @refusal = CONCAT(N'; its row was left as it is: error ', ERROR_NUMBER(), N': ', ERROR_MESSAGE());
    ROLLBACK TRANSACTION their_rows;
END CATCH;
IF (SELECT COUNT(*) FROM @members) = 1
    UPDATE j
    SET error = CONCAT(LEFT(j.error, 1900), @refusal)
    FROM @members AS m
    INNER LOOP JOIN [requests].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
ELSE
    SET @id = (SELECT MIN(job_id) FROM @members);
    WHILE @id IS NOT NULL
        DELETE @one;
        INSERT @one (job_id, state) SELECT job_id, state FROM @members WHERE job_id = @id;
        EXEC [requests].[note_ends] @queue_id, @one;
        SET @id = (SELECT MIN(job_id) FROM @members WHERE job_id > @id);
RETURN 0;
-- 220_enqueue_batch.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue; insert a row there to enqueue a job', 1;
-- 230_claim.sql
-- Held jobs come first; the rest of the room is for rows of [dbo].[RequestsQueue].
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
-- It locks rows before jobs, but finish, release, cancel and reap lock jobs first. They deadlock only if a row was made
-- ready while its job is being changed. This call can safely be repeated, so it is the victim.
SET DEADLOCK_PRIORITY LOW;
DECLARE @rows TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    [their_id] uniqueidentifier NULL,
    [their_request] varchar(512) COLLATE SQL_Latin1_General_CP1_CI_AS NULL,
    [their_InsertedDate] datetime NULL
);
DECLARE @answer TABLE (job_id bigint NOT NULL, fence int NOT NULL, attempt int NOT NULL,
    priority smallint NOT NULL, waited_ms bigint NOT NULL, age_ms bigint NOT NULL,
    kind varchar(64) COLLATE Latin1_General_100_BIN2 NULL, payload_utf16 bit NULL, payload varbinary(max) NOT NULL,
    details nvarchar(4000) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @open int = @@TRANCOUNT, @refused int;
BEGIN TRY
BEGIN TRANSACTION;
WITH next_rows AS
(
    SELECT TOP (@room)
           [id], [request], [InsertedDate]
    FROM [dbo].[RequestsQueue] AS t
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK)
)
DELETE next_rows
OUTPUT deleted.[id], deleted.[request], deleted.[InsertedDate]
INTO @rows ([their_id], [their_request], [their_InsertedDate])
IF @@ROWCOUNT = 0
    COMMIT TRANSACTION;
INSERT [requests].[jobs] WITH (ROWLOCK)
       (job_id, queue_id, state, worker_id, claimed_at, fence, attempt, enqueued_at, due_at, priority, kind,
        payload_utf16, payload, plain, headers, [their_id], [their_request], [their_InsertedDate])
OUTPUT inserted.job_id,
       inserted.fence,
       inserted.attempt,
       inserted.priority,
       DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now),
       DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now),
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END,
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END
INTO @answer (job_id, fence, attempt, priority, waited_ms, age_ms, payload_utf16, payload)
SELECT NEXT VALUE FOR [requests].[job_ids] OVER (ORDER BY k.place), @queue_id, 2, @worker_id, @now, 1,
       1, CAST(ISNULL(DATEADD(MINUTE, DATEDIFF(MINUTE, GETDATE(), GETUTCDATE()), k.[their_InsertedDate]), @now) AS datetime2(3)), CAST(ISNULL(DATEADD(MINUTE, DATEDIFF(MINUTE, GETDATE(), GETUTCDATE()), k.[their_InsertedDate]), @now) AS datetime2(3)), 0, NULL, 1, ISNULL(CAST(CAST(CAST(k.[their_request] AS nvarchar(max)) AS nvarchar(max)) AS varbinary(max)), 0x), 1,
       NULL, k.[their_id], k.[their_request], k.[their_InsertedDate]
FROM @rows AS k
COMMIT TRANSACTION;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    -- Jobs that the call has claimed above still run. The next call reports the error if it persists.
    IF @room = @max OR @open > 0
        THROW;
END CATCH;
-- Returned after the commit, so that a client that reads slowly blocks no rows; recover handles a lost response.
SELECT a.job_id, a.fence, a.attempt, @max_attempts AS max_attempts, a.priority, a.waited_ms, a.age_ms, a.kind,
       a.payload_utf16, a.payload, a.details
FROM @answer AS a
-- 232_look.sql
IF @found = 0 AND EXISTS (SELECT 1
    FROM [dbo].[RequestsQueue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK))
    SET @found = 1;
-- 240_finish.sql
DECLARE @message nvarchar(2048);
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead bit NOT NULL,
    attempt int NULL, claimed_at datetime2(3) NULL, [their_id] uniqueidentifier NULL, [their_request] varchar(512) COLLATE SQL_Latin1_General_CP1_CI_AS NULL, [their_InsertedDate] datetime NULL);
    OUTPUT deleted.job_id, 0, deleted.claimed_at, deleted.[their_id], deleted.[their_request], deleted.[their_InsertedDate] INTO @found (job_id, dead, claimed_at, [their_id], [their_request], [their_InsertedDate])
    -- Their rows, in the order of the jobs.
    BEGIN TRY
        INSERT [dbo].[RequestsCompleted] ([id], [request], [InsertedDate], [RemovedDate], [CompletedDate])
        SELECT d.[their_id], d.[their_request], d.[their_InsertedDate], DATEADD(MINUTE, DATEDIFF(MINUTE, GETUTCDATE(), GETDATE()), d.claimed_at), GETDATE()
    END TRY
    BEGIN CATCH
        -- As for a sink: the worker searches for the responsible job, whose attempt has then failed, and finishes the
        -- others.
        SET @message = CONCAT(ERROR_NUMBER(), N': error ', ERROR_NUMBER(), N' with its row of ', N'dbo.RequestsQueue',
            N': ', ERROR_MESSAGE());
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        EXEC [requests].[raise] 58020, @message;
    END CATCH;
    -- Snoozed jobs have not failed.
    INSERT @members (job_id, state)
    SELECT f.job_id, CASE WHEN f.outcome = 3 THEN 0 ELSE 1 END
    INNER JOIN @found AS d ON d.job_id = f.job_id
    WHERE f.outcome > 0;
    DELETE @members;
-- 300_reap.sql
    SELECT g.job_id, CASE WHEN g.state >= 3 THEN g.state ELSE 1 END, g.in_turn, g.batch_id, g.group_key
    FROM @given_back AS g;
-- 350_sample.sql
    -- Up to 10,000 rows of [dbo].[RequestsQueue] are counted; the oldest is the first in their order.
    SET @counted = (SELECT COUNT_BIG(*) FROM (SELECT TOP (10000) 1 AS one
        FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK)) AS h);
    IF @counted > 0
        SET @due_at = (SELECT TOP (1) CAST(DATEADD(MINUTE, DATEDIFF(MINUTE, GETDATE(), GETUTCDATE()), [InsertedDate]) AS datetime2(3))
            FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK));
    IF @counted > 0 AND (@oldest IS NULL OR @due_at < @oldest)
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK))
    SET @ready = 1;
-- 400_stats.sql
                   SELECT (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one
                               FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK)) AS c),
                          (SELECT TOP (1) CAST(DATEADD(MINUTE, DATEDIFF(MINUTE, GETDATE(), GETUTCDATE()), [InsertedDate]) AS datetime2(3))
                           FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK))
-- 406_backlog.sql
        + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one
            FROM [dbo].[RequestsQueue] AS t WITH (NOLOCK)) AS c)
-- 430_requeue.sql
DECLARE @tried_again int = 0;
IF @tried_again > 0
    SELECT @tried_again AS requeued;
    RETURN 0;
THROW 58003, N'this queue is the table dbo.RequestsQueue, from which the row of a dead job has been removed (dead.move): to run it again, insert it there', 1;
        SET @requeued = @requeued - (SELECT COUNT(*)
            FROM @back AS b
            INNER LOOP JOIN [requests].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = b.job_id
            WHERE j.state IN (4, 5));
SET @requeued = @requeued + @tried_again;
-- 440_purge.sql
IF @state IN ('ready', 'scheduled', 'waiting')
    THROW 58003, N'the queue is the table dbo.RequestsQueue; cancel its jobs, or delete its rows', 1;
-- 444_delete_queue.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue; run readpast adopt --remove to delete it', 1;
-- 470_set_schedule.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue; insert its rows by an Agent job, for example', 1;
-- 490_create_batch.sql
THROW 58003, N'the queue is the table dbo.RequestsQueue, which has no batches', 1;
