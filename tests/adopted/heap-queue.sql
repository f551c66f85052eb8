-- 000_adopted_table.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- Stops if the table has changed since this script was made from it; then make the script again.
DECLARE @id int = OBJECT_ID(N'[dbo].[HeapQueue]', N'U'), @differs nvarchar(2000), @message nvarchar(2048);
IF @id IS NULL
    THROW 58003, N'there is no table dbo.HeapQueue in this database, or this login may not see it', 1;

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
        (N'column Payload varbinary -1 0 0 null');
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
    SET @message = CONCAT(N'dbo.HeapQueue is not what this script was made from: ', REPLACE(@differs, N'%', N'%%'));
    THROW 58003, @message, 1;
END;
GO

-- 000_begin.sql
-- 095_adoption.sql
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The adoption of [dbo].[HeapQueue]: its origin, and the columns of jobs that identify the row of a job.
IF OBJECT_ID(N'[heap_queue].[adoption]', N'U') IS NULL AND EXISTS (SELECT 1 FROM [heap_queue].[queues])
    THROW 58003, N'schema heap_queue has queues of its own; choose another schema for the adoption', 1;
IF OBJECT_ID(N'[heap_queue].[adoption]', N'U') IS NULL
    CREATE TABLE [heap_queue].[adoption]
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
IF EXISTS (SELECT 1 FROM [heap_queue].[adoption]
    WHERE table_name <> N'dbo.HeapQueue' OR queue <> N'HeapQueue')
    THROW 58003, N'schema heap_queue adopts another table or queue; remove that first, or choose another schema', 1;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- The procedures rely on the kept columns, so these change only while there are no jobs, and no claim comes in between.
IF NOT EXISTS (SELECT 1 FROM [heap_queue].[adoption] WHERE kept = N'a claim deletes; key ; jobs has [their_Payload] varbinary(max) NULL')
BEGIN
    DECLARE @drop nvarchar(max);
    BEGIN TRANSACTION;
    IF EXISTS (SELECT 1 FROM [heap_queue].[jobs] WITH (TABLOCKX, HOLDLOCK))
        THROW 58003, N'schema heap_queue has jobs of another mapping; finish them, or readpast adopt --remove', 1;
    IF EXISTS (SELECT 1 FROM [heap_queue].[workers] WHERE lost_at IS NULL AND lease_until >= SYSUTCDATETIME())
        THROW 58003, N'workers of dbo.HeapQueue are running; stop them first, or their claims would fail', 1;
    DROP PROCEDURE IF EXISTS [heap_queue].[claim];
    DROP TABLE IF EXISTS [heap_queue].[refused_rows];
    DROP INDEX IF EXISTS jobs_their_key ON [heap_queue].[jobs];
    WHILE 1 = 1
    BEGIN
        SELECT TOP (1) @drop = N'ALTER TABLE [heap_queue].[jobs] DROP COLUMN ' + QUOTENAME(name)
        FROM sys.columns
        WHERE object_id = OBJECT_ID(N'[heap_queue].[jobs]') AND LEFT(name, 6) = N'their_';
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
UPDATE [heap_queue].[adoption] SET facts = N'';
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO
-- NULL in all rows, so that a column can be added at any time.
IF COL_LENGTH(N'[heap_queue].[jobs]', N'their_Payload') IS NULL
    ALTER TABLE [heap_queue].[jobs] ADD [their_Payload] varbinary(max) NULL;
GO
IF @@ERROR <> 0 SET NOEXEC ON;
GO

-- 200_create_queue.sql
IF EXISTS (SELECT 1 FROM [heap_queue].[adoption] WHERE queue <> @queue)
    THROW 58003, N'this schema adopts dbo.HeapQueue, and has only that queue', 1;
IF @completion <> 'delete' OR @delivery <> 'at_least_once' OR @claim_order <> 'fifo' OR @keep_done_s > 0
    OR @group_limit > 1 OR @retry_passes = 1 OR @dead_queue <> N''
    THROW 58003, N'the queue is the table dbo.HeapQueue: its mapping has these settings, and it has no groups', 1;
IF @max_running > 0 OR @rate_jobs > 0
    THROW 58003, N'the queue is the table dbo.HeapQueue, which cannot have max_running or rate_jobs', 1;
IF @keep_dead_s > 0
    THROW 58003, N'this queue is the table dbo.HeapQueue, whose claims delete: a dead job has the only copy of its row, which keep_dead_s would delete; requeue or purge these jobs, or set [dead] move in the mapping', 1;
-- 210_enqueue.sql
THROW 58003, N'the queue is the table dbo.HeapQueue; insert a row there to enqueue a job', 1;
-- 218_note_ends.sql
-- For procedures whose jobs fail or finish other than done, in their transaction: changes the rows of [dbo].[HeapQueue] as
-- the mapping says. The caller has locked and changed the jobs: a dead (4) or cancelled (5) job has finished; a waiting
-- one (0, 1) with state 1 in @members has failed and will be retried. If the server rejects a row (a constraint, a text
-- that is too long), the job finishes anyway: the row stays, and the job's error says so. An adopted table has no
-- batches or groups, which this procedure is for otherwise.
SET NOCOUNT ON;
RETURN 0;
-- 220_enqueue_batch.sql
THROW 58003, N'the queue is the table dbo.HeapQueue; insert a row there to enqueue a job', 1;
-- 230_claim.sql
-- Held jobs come first; the rest of the room is for rows of [dbo].[HeapQueue].
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
-- It locks rows before jobs, but finish, release, cancel and reap lock jobs first. They deadlock only if a row was made
-- ready while its job is being changed. This call can safely be repeated, so it is the victim.
SET DEADLOCK_PRIORITY LOW;
DECLARE @rows TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    [their_Payload] varbinary(max) NULL
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
           [Payload]
    FROM [dbo].[HeapQueue] AS t
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK)
)
DELETE next_rows
OUTPUT deleted.[Payload]
INTO @rows ([their_Payload])
IF @@ROWCOUNT = 0
    COMMIT TRANSACTION;
INSERT [heap_queue].[jobs] WITH (ROWLOCK)
       (job_id, queue_id, state, worker_id, claimed_at, fence, attempt, enqueued_at, due_at, priority, kind,
        payload_utf16, payload, plain, headers, [their_Payload])
OUTPUT inserted.job_id,
       inserted.fence,
       inserted.attempt,
       inserted.priority,
       0,
       0,
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload_utf16 END,
       CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END
INTO @answer (job_id, fence, attempt, priority, waited_ms, age_ms, payload_utf16, payload)
SELECT NEXT VALUE FOR [heap_queue].[job_ids] OVER (ORDER BY k.place), @queue_id, 2, @worker_id, @now, 1,
       1, @now, @now, 0, NULL, 0, ISNULL(k.[their_Payload], 0x), 1,
       NULL, k.[their_Payload]
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
    FROM [dbo].[HeapQueue] AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK))
    SET @found = 1;
-- 240_finish.sql
DECLARE @message nvarchar(2048);
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead bit NOT NULL,
    attempt int NULL);
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
    -- Up to 10,000 rows of [dbo].[HeapQueue] are counted; the oldest is the first in their order.
    SET @counted = (SELECT COUNT_BIG(*) FROM (SELECT TOP (10000) 1 AS one
        FROM [dbo].[HeapQueue] AS t WITH (NOLOCK)) AS h);
    IF @counted > 0
        SET @due_at = (SELECT TOP (1) CAST(NULL AS datetime2(3))
            FROM [dbo].[HeapQueue] AS t WITH (NOLOCK));
    IF @counted > 0 AND (@oldest IS NULL OR @due_at < @oldest)
-- 360_unfinished.sql
IF @ready = 0 AND EXISTS (SELECT 1 FROM [dbo].[HeapQueue] AS t WITH (NOLOCK))
    SET @ready = 1;
-- 400_stats.sql
                   SELECT (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one
                               FROM [dbo].[HeapQueue] AS t WITH (NOLOCK)) AS c),
                          (SELECT TOP (1) CAST(NULL AS datetime2(3))
                           FROM [dbo].[HeapQueue] AS t WITH (NOLOCK))
-- 406_backlog.sql
        + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one
            FROM [dbo].[HeapQueue] AS t WITH (NOLOCK)) AS c)
-- 430_requeue.sql
DECLARE @tried_again int = 0;
        SET @requeued = @requeued - (SELECT COUNT(*)
            FROM @back AS b
            INNER LOOP JOIN [heap_queue].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = b.job_id
            WHERE j.state IN (4, 5));
SET @requeued = @requeued + @tried_again;
-- 440_purge.sql
IF @state IN ('ready', 'scheduled', 'waiting')
    THROW 58003, N'the queue is the table dbo.HeapQueue; cancel its jobs, or delete its rows', 1;
-- 444_delete_queue.sql
THROW 58003, N'the queue is the table dbo.HeapQueue; run readpast adopt --remove to delete it', 1;
-- 470_set_schedule.sql
THROW 58003, N'the queue is the table dbo.HeapQueue; insert its rows by an Agent job, for example', 1;
-- 490_create_batch.sql
THROW 58003, N'the queue is the table dbo.HeapQueue, which has no batches', 1;
