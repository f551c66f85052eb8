--@ in place of
    IF @room = 0 OR @priority = 32767 OR (@claimed > 0 AND @delivery = 'at_most_once')
        RETURN @alone_waits;
--@ put
    IF @room = 0
        RETURN @alone_waits;
    IF @priority = 32767
        BREAK;
--@ in place of
END;

RETURN @alone_waits;
GO
--@ put
END;

-- The jobs that are held came first. What room is left is for rows of /*{table}*/.
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
-- From here on it locks their rows first, while finish, release, cancel and reap lock the jobs first. They can meet only where somebody has
-- made a row ready whose job they are just changing. This call can be made again without harm; so it is the victim.
SET DEADLOCK_PRIORITY LOW;
/*{worker}*/DECLARE @rows TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    /*{row_columns}*/
);
/*{known_rows}*/-- What is sent when all is committed: while a client reads slowly, nobody shall wait for their rows. (A lost answer is what recover is for.)
DECLARE @answer TABLE
(
    job_id        bigint         NOT NULL,
    fence         int            NOT NULL,
    attempt       int            NOT NULL,
    priority      smallint       NOT NULL,
    due_at        datetime2(3)   NOT NULL,
    enqueued_at   datetime2(3)   NOT NULL,
    kind          varchar(64)    COLLATE Latin1_General_100_BIN2 NULL,
    payload_utf16 bit            NOT NULL,
    payload       varbinary(max) NOT NULL,
    details       nvarchar(4000) NULL
);
DECLARE @open int = @@TRANCOUNT;
BEGIN TRY
BEGIN TRANSACTION;
WITH next_rows AS
(
    SELECT TOP (@room)
           /*{claimed_columns}*/
    FROM /*{table}*/ WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK/*{index_hint}*/)/*{where}*//*{order_by}*/
)
/*{take}*/
OUTPUT /*{outputs}*/
INTO @rows (/*{row_names}*/)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
BEGIN
    COMMIT TRANSACTION;
    RETURN @alone_waits;
END;
/*{known}*/
INSERT [$(schema)].[jobs] WITH (ROWLOCK)
       (job_id, queue_id, state, lifo, worker_id, claimed_at, fence, attempt, enqueued_at, due_at, priority, kind, payload_utf16, payload, plain,
        headers, /*{kept_names}*/)
OUTPUT inserted.job_id, inserted.fence, inserted.attempt, inserted.priority, inserted.due_at, inserted.enqueued_at, inserted.kind,
       inserted.payload_utf16, CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END,
       /*{details}*/
INTO @answer (job_id, fence, attempt, priority, due_at, enqueued_at, kind, payload_utf16, payload, details)
SELECT NEXT VALUE FOR [$(schema)].[job_ids] OVER (ORDER BY /*{number_order}*/), @queue_id, 2, 0, @worker_id, @now, 1, /*{attempt}*/, /*{created}*/,
       /*{due}*/, /*{priority}*/, /*{kind}*/, /*{utf16}*/, /*{payload}*/, /*{plain}*/,
       /*{headers}*/, /*{kept_values}*/
FROM @rows AS k
OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    -- What the call has claimed above is run all the same. The next one says what is wrong, if it still is.
    IF @room = @max OR @open > 0
        THROW;
    RETURN @alone_waits;
END CATCH;

SELECT a.job_id, a.fence, a.attempt, @max_attempts AS max_attempts, a.priority,
       DATEDIFF_BIG(MILLISECOND, a.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, a.enqueued_at, @now) AS age_ms, a.kind, a.payload_utf16,
       a.payload, a.details
FROM @answer AS a
OPTION (MAXDOP 1, KEEPFIXED PLAN);
RETURN @alone_waits;
GO
