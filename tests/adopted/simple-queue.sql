-- 000_adopted_table.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Stops if the table has changed since this script was made from it; then make the script again.
DECLARE @id int = OBJECT_ID(N'[dbo].[SimpleQueue]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
IF @id IS NULL
    THROW 58003, N'there is no table dbo.SimpleQueue in this database, or this login may not see it', 1;

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
        (N'column Id uniqueidentifier 16 0 0 not null'),
        (N'column CreatedAt datetime2 8 27 7 not null'),
        (N'column ProcessingStartedAt datetime2 8 27 7 null'),
        (N'column Errors nvarchar -1 0 0 SQL_Latin1_General_CP1_CI_AS null'),
        (N'column Payload nvarchar -1 0 0 SQL_Latin1_General_CP1_CI_AS null'),
        (N'unique index on the key'),
        (N'index IX_SIMPLEQUEUE_POP, key 1: ProcessingStartedAt'),
        (N'index IX_SIMPLEQUEUE_POP, key 2: CreatedAt'),
        (N'index IX_SIMPLEQUEUE_POP where ([ProcessingStartedAt] IS NULL)');
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
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (N'Id'));

SELECT TOP (1) @differs = d.line
FROM (SELECT CONCAT(w.line, N' is not there') AS line FROM @was AS w
      WHERE NOT EXISTS (SELECT 1 FROM @is_now AS n WHERE n.line = w.line)
      UNION ALL
      SELECT CONCAT(n.line, N' is new') FROM @is_now AS n
      WHERE n.may_be_new = 0 AND NOT EXISTS (SELECT 1 FROM @was AS w WHERE w.line = n.line)) AS d
ORDER BY d.line DESC;
IF @differs IS NOT NULL
BEGIN
    SET @message = CONCAT(N'dbo.SimpleQueue is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
    THROW 58003, @message, 1;
END;
GO

-- 000_begin.sql
-- 095_adoption.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The adoption of [dbo].[SimpleQueue]: its origin, and the columns of jobs that identify the row of a job.
IF OBJECT_ID(N'[simple_queue].[adoption]', N'U') IS NULL AND EXISTS (SELECT 1 FROM [simple_queue].[queues])
    THROW 58003, N'schema simple_queue has queues of its own; choose another schema for the adoption', 1;
IF OBJECT_ID(N'[simple_queue].[adoption]', N'U') IS NULL
    CREATE TABLE [simple_queue].[adoption]
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
IF EXISTS (SELECT 1 FROM [simple_queue].[adoption]
    WHERE table_name <> N'dbo.SimpleQueue' OR queue <> N'SimpleQueue')
    THROW 58003, N'schema simple_queue adopts another table or queue; remove that first, or choose another schema', 1;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The procedures rely on the kept columns, so these change only while there are no jobs, and no claim comes in between.
IF NOT EXISTS (SELECT 1 FROM [simple_queue].[adoption] WHERE kept = N'a claim sets [ProcessingStartedAt]; key [Id]; jobs has [their_Id] uniqueidentifier NULL, [their_ProcessingStartedAt] datetime2(7) NULL')
BEGIN
    DECLARE @drop nvarchar(max);
    BEGIN TRANSACTION;
    IF EXISTS (SELECT 1 FROM [simple_queue].[jobs] WITH (TABLOCKX, HOLDLOCK))
        THROW 58003, N'schema simple_queue has jobs of another mapping; finish them, or readpast adopt --remove', 1;
    IF EXISTS (SELECT 1 FROM [simple_queue].[workers] WHERE lost_at IS NULL AND lease_until >= SYSUTCDATETIME())
        THROW 58003, N'workers of dbo.SimpleQueue are running; stop them first, or their claims would fail', 1;
    DROP PROCEDURE IF EXISTS [simple_queue].[claim];
    DROP TABLE IF EXISTS [simple_queue].[refused_rows];
    DROP INDEX IF EXISTS jobs_their_key ON [simple_queue].[jobs];
    WHILE 1 = 1
    BEGIN
        SELECT TOP (1) @drop = N'ALTER TABLE [simple_queue].[jobs] DROP COLUMN ' + QUOTENAME(name)
        FROM sys.columns
        WHERE object_id = OBJECT_ID(N'[simple_queue].[jobs]') AND LEFT(name, 6) = N'their_';
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
UPDATE [simple_queue].[adoption] SET facts = N'';
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- NULL in all rows, so that a column can be added at any time.
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

-- 096_refused_rows.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Ready rows of [dbo].[SimpleQueue] that the server does not let claims change (note_refused): claims skip them.
IF OBJECT_ID(N'[simple_queue].[refused_rows]', N'U') IS NULL
    CREATE TABLE [simple_queue].[refused_rows]
    (
        [their_Id] uniqueidentifier NULL,
        refused_at datetime2(3) NOT NULL,
        INDEX refused_rows_key UNIQUE NONCLUSTERED ([their_Id])
    );
GO

-- 200_create_queue.sql
IF EXISTS (SELECT 1 FROM [simple_queue].[adoption] WHERE queue <> @queue)
    THROW 58003, N'this schema adopts dbo.SimpleQueue, and has only that queue', 1;
IF @completion <> 'delete' OR @delivery <> 'at_least_once' OR @claim_order <> 'fifo' OR @keep_done_s > 0
    OR @group_limit > 1 OR @retry_passes = 1 OR @halt_groups = 1 OR @dead_queue <> N''
    THROW 58003, N'the queue is the table dbo.SimpleQueue: its mapping has these settings, and it has no groups', 1;
IF @max_running > 0 OR @rate_jobs > 0 OR @max_depth > 0 OR @age_after_ms > 0 OR @fair = 1
    THROW 58003, N'the queue is the table dbo.SimpleQueue, which cannot have max_running, rate_jobs, max_depth, age_after_ms or fair', 1;
-- 210_enqueue.sql
THROW 58003, N'the queue is the table dbo.SimpleQueue; insert a row there to enqueue a job', 1;
-- 218_note_ends.sql
-- For procedures whose jobs fail or finish other than done, in their transaction: changes the rows of [dbo].[SimpleQueue] as
-- the mapping says. The caller has locked and changed the jobs: a dead (4) or cancelled (5) job has finished; a waiting
-- one (0, 1) with state 1 in @members has failed and will be retried. If the server rejects a row (a constraint, a text
-- that is too long), the job finishes anyway: the row stays, and the job's error says so. An adopted table has no
-- batches or groups, which this procedure is for otherwise.
SET NOCOUNT ON;
SET XACT_ABORT OFF;  -- so that a rejected row does not end the transaction
DECLARE @refusal nvarchar(2048), @id bigint;
DECLARE @one [simple_queue].[member_list];
SAVE TRANSACTION their_rows;
BEGIN TRY
    UPDATE t
    SET [Errors] = j.error
    INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = j.[their_Id]
    WHERE m.state = 1 AND j.state IN (0, 1)
    UPDATE t
    SET [Errors] = j.error
    INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = j.[their_Id]
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
    SET error = CONCAT(LEFT(j.error, 1900), @refusal)
ELSE
    SET @id = (SELECT MIN(job_id) FROM @members);
    WHILE @id IS NOT NULL
        DELETE @one;
        INSERT @one (job_id, state) SELECT job_id, state FROM @members WHERE job_id = @id;
        EXEC [simple_queue].[note_ends] @queue_id, @one;
        SET @id = (SELECT MIN(job_id) FROM @members WHERE job_id > @id);
RETURN 0;
-- 220_enqueue_batch.sql
THROW 58003, N'the queue is the table dbo.SimpleQueue; insert a row there to enqueue a job', 1;
-- 229_note_refused.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- For claim, after the server has rejected its changes: finds the responsible rows among the first @max of [dbo].[SimpleQueue].
-- Tries each row and undoes the change. A rejected row is recorded in refused_rows, so that claims skip it, and gets a
-- dead job with the reason. It is tried again in ten minutes, or when that job is requeued.
CREATE OR ALTER PROCEDURE [simple_queue].[note_refused]
    @queue_id  int,
    @worker_id uniqueidentifier,
    @max       int,
    @refused   int OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @place int = 0, @last int, @job_id bigint, @error nvarchar(4000);
DECLARE @first TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    [their_Id] uniqueidentifier NULL
);
DECLARE @rows TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    [their_Id] uniqueidentifier NULL,
    [their_CreatedAt] datetime2(7) NULL,
    [their_ProcessingStartedAt] datetime2(7) NULL,
    payload varbinary(max) NOT NULL,
    headers nvarchar(1500) COLLATE Latin1_General_100_BIN2 NULL
);
DECLARE @job TABLE (attempt int NOT NULL, enqueued_at datetime2(3) NOT NULL, due_at datetime2(3) NOT NULL,
    priority smallint NOT NULL, kind varchar(64) COLLATE Latin1_General_100_BIN2 NULL);
SET @refused = 0;

INSERT @first ([their_Id])
SELECT TOP (@max) t.[Id]
FROM [dbo].[SimpleQueue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([IX_SIMPLEQUEUE_POP]))
    WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id])
    ORDER BY [CreatedAt]
OPTION (MAXDOP 1);
SET @last = @@ROWCOUNT;

WHILE @place < @last
BEGIN
    SET @place = @place + 1;
    SET @error = NULL;
    DELETE @rows;
    BEGIN TRY
        BEGIN TRANSACTION;
        UPDATE t
        SET [ProcessingStartedAt] = SYSUTCDATETIME()
        OUTPUT deleted.[Id], deleted.[CreatedAt], deleted.[ProcessingStartedAt], ISNULL(CAST(deleted.[Payload] AS varbinary(max)), 0x), CONCAT(N'{"Id":"', CONVERT(nvarchar(36), deleted.[Id]), N'"}')
        INTO @rows ([their_Id], [their_CreatedAt], [their_ProcessingStartedAt], payload, headers)
        FROM @first AS k
        INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)
            ON k.[their_Id] = t.[Id]
        WHERE k.place = @place AND (t.[ProcessingStartedAt] IS NULL)
        OPTION (MAXDOP 1);
        INSERT @job (attempt, enqueued_at, due_at, priority, kind)
        SELECT 1, CAST(ISNULL(k.[their_CreatedAt], @now) AS datetime2(3)), CAST(ISNULL(k.[their_CreatedAt], @now) AS datetime2(3)), 0, NULL
        FROM @rows AS k;
        ROLLBACK TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        IF ERROR_NUMBER() NOT IN (220, 232, 241, 242, 244, 245, 248, 295, 511, 513, 515, 517, 535, 536, 537, 547, 1946, 2601, 2627, 2628, 8114, 8115, 8134, 8152, 8169, 8170)
            THROW;
        SET @error = CONCAT(N'its row cannot be claimed: error ', ERROR_NUMBER(), N': ', ERROR_MESSAGE());
    END CATCH;
    IF @error IS NULL
        CONTINUE;

    -- Two workers may find the same row at the same time.
    DELETE @rows;
    BEGIN TRANSACTION;
    INSERT [simple_queue].[refused_rows] ([their_Id], refused_at)
    SELECT k.[their_Id], @now
    FROM @first AS k
    WHERE k.place = @place
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (UPDLOCK, HOLDLOCK)
            WHERE a.[their_Id] = k.[their_Id]);
    IF @@ROWCOUNT > 0
    BEGIN
        SET @job_id = NULL;
        SELECT @job_id = j.job_id
        FROM @first AS k
        INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_their_key))
            ON j.[their_Id] = k.[their_Id] AND j.[their_Id] IS NOT NULL
        WHERE k.place = @place
        OPTION (MAXDOP 1);
        UPDATE [simple_queue].[jobs] WITH (ROWLOCK) SET error = @error, finished_at = @now
        WHERE job_id = @job_id AND ended = 1 OPTION (MAXDOP 1);
        INSERT @rows ([their_Id], [their_CreatedAt], [their_ProcessingStartedAt], payload, headers)
        SELECT t.[Id], t.[CreatedAt], t.[ProcessingStartedAt], ISNULL(CAST(t.[Payload] AS varbinary(max)), 0x), CASE WHEN DATALENGTH(CONCAT(N'{"Id":"', CONVERT(nvarchar(36), t.[Id]), N'"}')) <= 3000 THEN CONCAT(N'{"Id":"', CONVERT(nvarchar(36), t.[Id]), N'"}') END
        FROM @first AS k
        INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK)
            ON k.[their_Id] = t.[Id]
        WHERE k.place = @place AND @job_id IS NULL
        OPTION (MAXDOP 1);
        INSERT [simple_queue].[jobs] WITH (ROWLOCK)
               (job_id, queue_id, state, ended, fence, attempt, enqueued_at, due_at, priority, finished_at, error,
                payload_utf16, payload, plain, headers, [their_Id], [their_ProcessingStartedAt])
        SELECT NEXT VALUE FOR [simple_queue].[job_ids], @queue_id, 4, 1, 0, 0, @now, @now, 0, @now, @error, 1,
               k.payload, 0, k.headers, k.[their_Id], k.[their_ProcessingStartedAt]
        FROM @rows AS k;
    END;
    COMMIT TRANSACTION;
    SET @refused = @refused + 1;
END;
GO

-- 230_claim.sql
-- Held jobs come first; the rest of the room is for rows of [dbo].[SimpleQueue].
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
-- It locks rows before jobs, but finish, release, cancel and reap lock jobs first. They deadlock only if a row was made
-- ready while its job is being changed. This call can safely be repeated, so it is the victim.
SET DEADLOCK_PRIORITY LOW;
DECLARE @rows TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    [their_Id] uniqueidentifier NULL,
    [their_CreatedAt] datetime2(7) NULL,
    [their_ProcessingStartedAt] datetime2(7) NULL,
    payload varbinary(max) NOT NULL,
    headers nvarchar(1500) COLLATE Latin1_General_100_BIN2 NULL
);
DECLARE @known TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, place int NOT NULL);
DECLARE @answer TABLE (job_id bigint NOT NULL, fence int NOT NULL, attempt int NOT NULL,
    priority smallint NOT NULL, waited_ms bigint NOT NULL, age_ms bigint NOT NULL,
    kind varchar(64) COLLATE Latin1_General_100_BIN2 NULL, payload_utf16 bit NULL, payload varbinary(max) NOT NULL,
    details nvarchar(4000) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @open int = @@TRANCOUNT, @refused int;
DECLARE @some_refused bit = CASE WHEN EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] WITH (NOLOCK)) THEN 1 ELSE 0 END;
BEGIN TRY
BEGIN TRANSACTION;
WITH next_rows AS
(
    SELECT TOP (@room)
           [Id], [CreatedAt], [ProcessingStartedAt], [Payload]
    FROM [dbo].[SimpleQueue] AS t
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([IX_SIMPLEQUEUE_POP]))
    WHERE [ProcessingStartedAt] IS NULL
        AND (@some_refused = 0 OR NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id]))
    ORDER BY [CreatedAt]
)
UPDATE next_rows
SET [ProcessingStartedAt] = SYSUTCDATETIME()
OUTPUT deleted.[Id], deleted.[CreatedAt], deleted.[ProcessingStartedAt], ISNULL(CAST(deleted.[Payload] AS varbinary(max)), 0x), CONCAT(N'{"Id":"', CONVERT(nvarchar(36), deleted.[Id]), N'"}')
INTO @rows ([their_Id], [their_CreatedAt], [their_ProcessingStartedAt], payload, headers)
OPTION (MAXDOP 1, KEEPFIXED PLAN, LOOP JOIN);
IF @@ROWCOUNT = 0
-- A row whose key already has a job was made ready outside readpast: the job is taken over, its fence grows, its
-- attempts restart (failed ones stay listed, as after a requeue). First the ids from the index alone, then the jobs by
-- id, each before its index entries, the order of all procedures.
INSERT @known (job_id, place)
SELECT j.job_id, k.place
FROM @rows AS k
INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_their_key))
    ON j.[their_Id] = k.[their_Id] AND j.[their_Id] IS NOT NULL
IF @@ROWCOUNT > 0
    -- A job that this call has claimed above is already in the result: it runs once, and its row is marked again.
    UPDATE j
    SET state = 2, ended = 0, alone = 0, fence = j.fence % 2147483647 + 1, attempt = 1,
        worker_id = @worker_id, claimed_at = @now, enqueued_at = CAST(ISNULL(k.[their_CreatedAt], @now) AS datetime2(3)), due_at = CAST(ISNULL(k.[their_CreatedAt], @now) AS datetime2(3)),
        priority = 0, kind = NULL, finished_at = NULL, run_us = NULL, cpu_us = NULL,
        peak_bytes = NULL, error = NULL, cancelling = NULL,
        checkpointed = NULL,  -- the checkpoint belongs to the old payload
        payload_utf16 = 1, payload = k.payload,
        [their_ProcessingStartedAt] = k.[their_ProcessingStartedAt]
    OUTPUT inserted.job_id,
       inserted.fence,
       inserted.attempt,
       inserted.priority,
       DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now),
       DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now),
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END,
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END,
       N'{"headers":' + inserted.headers + N'}'
    INTO @answer (job_id, fence, attempt, priority, waited_ms, age_ms, payload_utf16, payload, details)
    FROM @known AS n
    INNER LOOP JOIN @rows AS k ON k.place = n.place
    INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = n.job_id
    WHERE NOT (j.state = 2 AND j.worker_id = @worker_id AND j.claimed_at = @now)
    -- The remaining rows get a job, even if theirs is gone by now.
    DELETE k
    FROM @known AS n
    INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        ON j.job_id = n.job_id
    INNER LOOP JOIN @rows AS k ON k.place = n.place
INSERT [simple_queue].[jobs] WITH (ROWLOCK)
       (job_id, queue_id, state, worker_id, claimed_at, fence, attempt, enqueued_at, due_at, priority, kind,
        payload_utf16, payload, plain, headers, [their_Id], [their_ProcessingStartedAt])
OUTPUT inserted.job_id,
       inserted.fence,
       inserted.attempt,
       inserted.priority,
       DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now),
       DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now),
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END,
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END,
       N'{"headers":' + inserted.headers + N'}'
INTO @answer (job_id, fence, attempt, priority, waited_ms, age_ms, payload_utf16, payload, details)
SELECT NEXT VALUE FOR [simple_queue].[job_ids] OVER (ORDER BY k.[their_CreatedAt]), @queue_id, 2, @worker_id, @now, 1,
       1, CAST(ISNULL(k.[their_CreatedAt], @now) AS datetime2(3)), CAST(ISNULL(k.[their_CreatedAt], @now) AS datetime2(3)), 0, NULL, 1, k.payload, 0,
       k.headers, k.[their_Id], k.[their_ProcessingStartedAt]
FROM @rows AS k
COMMIT TRANSACTION;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    -- Values that a column or constraint rejects: the next call skips these rows. More than a thousand of them are the
    -- fault of the mapping or the table.
    IF @open = 0 AND ERROR_NUMBER() IN (220, 232, 241, 242, 244, 245, 248, 295, 511, 513, 515, 517, 535, 536, 537, 547, 1946, 2601, 2627, 2628, 8114, 8115, 8134, 8152, 8169, 8170)
        AND (SELECT COUNT(*) FROM [simple_queue].[refused_rows] WITH (NOLOCK)) < 1000
        EXEC [simple_queue].[note_refused] @queue_id, @worker_id, @room, @refused OUTPUT;
        IF @refused > 0
        -- They are rejected only together, so claim one.
        IF @max > 1 AND @room = @max
            EXEC @status = [simple_queue].[claim] @queue, @worker_id, 1, 0, @max_payload_bytes;
            RETURN @status;
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
    FROM [dbo].[SimpleQueue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id]))
    SET @found = 1;
-- 240_finish.sql
DECLARE @message nvarchar(2048);
    batch_id bigint NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL, [their_Id] uniqueidentifier NULL);
    OUTPUT deleted.job_id, 0, deleted.[their_Id] INTO @found (job_id, dead, [their_Id])
    -- Their rows, in the order of the jobs.
    BEGIN TRY
        DELETE t
        INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = d.[their_Id]
    END TRY
    BEGIN CATCH
        -- As for a sink: the worker searches for the responsible job, whose attempt has then failed, and finishes the
        -- others.
        SET @message = CONCAT(ERROR_NUMBER(), N': error ', ERROR_NUMBER(), N' with its row of ', N'dbo.SimpleQueue',
            N': ', ERROR_MESSAGE());
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        EXEC [simple_queue].[raise] 58020, @message;
    END CATCH;
    -- Snoozed jobs have not failed.
    INSERT @members (job_id, state)
    SELECT f.job_id, CASE WHEN f.outcome = 3 THEN 0 ELSE 1 END
    INNER JOIN @found AS d ON d.job_id = f.job_id
    WHERE f.outcome > 0;
    DELETE @members;
-- 250_release.sql
-- A row that was claimed once, without a checkpoint, is restored, and its job is deleted.
DECLARE @returned TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, [their_Id] uniqueidentifier NULL,
    [their_ProcessingStartedAt] datetime2(7) NULL);
DELETE j
OUTPUT deleted.job_id, deleted.[their_Id], deleted.[their_ProcessingStartedAt]
INTO @returned (job_id, [their_Id], [their_ProcessingStartedAt])
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = r.fence AND j.fence = 1 AND j.cancelling IS NULL
    AND ISNULL(j.checkpointed, 0) = 0
IF @@ROWCOUNT > 0
    DELETE l
    FROM @returned AS b
    INNER LOOP JOIN [simple_queue].[logs] AS l WITH (ROWLOCK, FORCESEEK, INDEX (logs_pk)) ON l.job_id = b.job_id
    UPDATE t
    SET t.[ProcessingStartedAt] = b.[their_ProcessingStartedAt]
    FROM @returned AS b
    INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, FORCESEEK) ON b.[their_Id] = t.[Id]
SET @released = @released + (SELECT COUNT(*) FROM @returned);
INSERT @found (job_id) SELECT job_id FROM @returned;
-- 300_reap.sql
    SELECT g.job_id, CASE WHEN g.state >= 3 THEN g.state ELSE 1 END, g.in_turn, g.batch_id, g.group_key
    FROM @given_back AS g;
DELETE [simple_queue].[refused_rows] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
WHERE refused_at < DATEADD(MINUTE, -10, @now) OR refused_at > DATEADD(MINUTE, 1, @now);
-- 350_sample.sql
    -- Up to 10,000 rows of [dbo].[SimpleQueue] are counted; the oldest is the first in their order.
    SET @counted = (SELECT COUNT_BIG(*) FROM (SELECT TOP (10000) 1 AS one
        FROM [dbo].[SimpleQueue] AS t WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id])) AS h);
    IF @counted > 0
        SET @due_at = (SELECT TOP (1) CAST([CreatedAt] AS datetime2(3))
            FROM [dbo].[SimpleQueue] AS t WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id])
    ORDER BY [CreatedAt]);
    IF @counted > 0 AND (@oldest IS NULL OR @due_at < @oldest)
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[SimpleQueue] AS t WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id]))
    SET @ready = 1;
-- 400_stats.sql
                   SELECT (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one
                               FROM [dbo].[SimpleQueue] AS t WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id])) AS c),
                          (SELECT TOP (1) CAST([CreatedAt] AS datetime2(3))
                           FROM [dbo].[SimpleQueue] AS t WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id])
    ORDER BY [CreatedAt])
-- 405_list_kinds.sql
      FROM (SELECT TOP (@most) CAST(NULL AS varchar(64)) COLLATE Latin1_General_100_BIN2 AS kind
            FROM [dbo].[SimpleQueue] AS t WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id])) AS r
-- 406_backlog.sql
        + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one
            FROM [dbo].[SimpleQueue] AS t WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id])) AS c)
    IF @theirs > 0
        INSERT @parts (part, is_long, kind, jobs)
        SELECT TOP (1000) 4, 0, CAST(NULL AS varchar(64)) COLLATE Latin1_General_100_BIN2, 1
        FROM [dbo].[SimpleQueue] AS t WITH (NOLOCK, INDEX ([IX_SIMPLEQUEUE_POP])) WHERE [ProcessingStartedAt] IS NULL
        AND NOT EXISTS (SELECT 1 FROM [simple_queue].[refused_rows] AS a WITH (NOLOCK, FORCESEEK) WHERE a.[their_Id] = t.[Id])
-- 429_note_requeued.sql
-- For requeue, in its transaction: marks the rows of requeued jobs in [dbo].[SimpleQueue] as a claim does. If the server
-- rejects a row, its job stays dead (state 4), and its error says so. An adopted table has no batches or groups, which
-- this procedure is for otherwise.
SET NOCOUNT ON;
SET XACT_ABORT OFF;  -- so that a rejected row does not end the transaction
DECLARE @refusal nvarchar(2048), @id bigint;
DECLARE @one [simple_queue].[member_list];
SAVE TRANSACTION their_rows;
BEGIN TRY
    UPDATE t
    SET [ProcessingStartedAt] = SYSUTCDATETIME()
    FROM @members AS m
    INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
    INNER LOOP JOIN [dbo].[SimpleQueue] AS t WITH (ROWLOCK, FORCESEEK) ON t.[Id] = j.[their_Id]
    -- They have jobs again, so claims need not skip them.
    DELETE a
    FROM @members AS m
    INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
    INNER LOOP JOIN [simple_queue].[refused_rows] AS a WITH (ROWLOCK, FORCESEEK) ON a.[their_Id] = j.[their_Id]
    RETURN 0;
END TRY
BEGIN CATCH
    -- Values that a column or constraint rejects. Any other error goes to the caller.
    IF XACT_STATE() <> 1 OR ERROR_NUMBER() NOT IN (220, 232, 241, 242, 244, 245, 248, 295, 511, 513, 515, 517, 535, 536, 537, 547, 1946, 2601, 2627, 2628, 8114, 8115, 8134, 8152, 8169, 8170)
    BEGIN
        SET XACT_ABORT ON;
        THROW;
    END;
    SET @refusal = CONCAT(N'; its row was left as it is: error ', ERROR_NUMBER(), N': ', ERROR_MESSAGE());
    ROLLBACK TRANSACTION their_rows;
END CATCH;
IF (SELECT COUNT(*) FROM @members) = 1
    UPDATE j
    SET state = m.state, ended = 1, error = CONCAT(N'the job cannot be requeued', @refusal)
    FROM @members AS m
    INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
ELSE
BEGIN
    SET @id = (SELECT MIN(job_id) FROM @members);
    WHILE @id IS NOT NULL
    BEGIN
        DELETE @one;
        INSERT @one (job_id, state) SELECT job_id, state FROM @members WHERE job_id = @id;
        EXEC [simple_queue].[note_requeued] @queue_id, @one;
        SET @id = (SELECT MIN(job_id) FROM @members WHERE job_id > @id);
    END;
END;
RETURN 0;
-- 430_requeue.sql
DECLARE @tried_again int = 0;
-- Jobs of rows that could not be claimed (fence 0) were never held: they are deleted, and the next claim tries the
-- rows.
IF EXISTS (SELECT 1 FROM [simple_queue].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue)
    DECLARE @unclaimed TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, [their_Id] uniqueidentifier NULL);
    BEGIN TRANSACTION;
    DELETE j
    OUTPUT deleted.job_id, deleted.[their_Id] INTO @unclaimed (job_id, [their_Id])
    FROM [simple_queue].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE j.queue_id = (SELECT q.queue_id FROM [simple_queue].[queues] AS q WITH (FORCESEEK (queues_name (name)))
            WHERE q.name = @queue) AND j.state = 4 AND j.ended = 1 AND j.fence = 0
        AND (@listed = 0 AND @job_id IS NULL OR j.job_id = @job_id
            OR @listed = 1 AND EXISTS (SELECT 1 FROM @jobs AS a WHERE a.job_id = j.job_id))
    OPTION (MAXDOP 1, RECOMPILE);
    SET @tried_again = @@ROWCOUNT;
    DELETE a
    FROM @unclaimed AS u
    INNER LOOP JOIN [simple_queue].[refused_rows] AS a WITH (ROWLOCK, FORCESEEK) ON a.[their_Id] = u.[their_Id]
    OPTION (MAXDOP 1);
    IF @tried_again > 0 AND (@payload IS NOT NULL OR @text IS NOT NULL)
        THROW 58003, N'the queue is the table dbo.SimpleQueue; change its row, and requeue without a payload', 1;
    COMMIT TRANSACTION;
        SET @requeued = @requeued - (SELECT COUNT(*)
            FROM @back AS b
            INNER LOOP JOIN [simple_queue].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = b.job_id
            WHERE j.state IN (4, 5));
SET @requeued = @requeued + @tried_again;
-- 437_run_again.sql
THROW 58003, N'the queue is the table dbo.SimpleQueue; insert a new row for a job that is to run again', 1;
-- 440_purge.sql
IF @state IN ('ready', 'scheduled', 'waiting')
    THROW 58003, N'the queue is the table dbo.SimpleQueue; cancel its jobs, or delete its rows', 1;
-- 444_delete_queue.sql
THROW 58003, N'the queue is the table dbo.SimpleQueue; run readpast adopt --remove to delete it', 1;
-- 470_set_schedule.sql
THROW 58003, N'the queue is the table dbo.SimpleQueue; insert its rows by an Agent job, for example', 1;
-- 490_create_batch.sql
THROW 58003, N'the queue is the table dbo.SimpleQueue, which has no batches', 1;
