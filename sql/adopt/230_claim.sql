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
/*{worker}*/DECLARE @rows TABLE
(
    place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    /*{row_columns}*/
);
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
OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, @max_attempts AS max_attempts, inserted.priority,
       DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms,
       inserted.kind, inserted.payload_utf16,
       CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
       /*{details}*/ AS details
SELECT NEXT VALUE FOR [$(schema)].[job_ids] OVER (ORDER BY /*{number_order}*/), @queue_id, 2, 0, @worker_id, @now, 1, /*{attempt}*/, /*{created}*/,
       /*{due}*/, /*{priority}*/, /*{kind}*/, /*{utf16}*/, /*{payload}*/, /*{plain}*/,
       /*{headers}*/, /*{kept_values}*/
FROM @rows AS k
OPTION (MAXDOP 1, KEEPFIXED PLAN);
COMMIT TRANSACTION;

RETURN @alone_waits;
GO
