-- Counts finished jobs in their batches, completes batches without unfinished jobs, and records turns that are passed
-- on. Called by procedures that finish jobs of batches or groups, as the last change of their transaction. The caller
-- has locked the jobs. A job passes its turn on if it had a turn (in_turn) and has finished or waits for another turn
-- (state 6). In a queue with halt_groups, a dead job keeps its turn (in_turn 0), and passes it on when it is requeued,
-- skipped or deleted.
CREATE OR ALTER PROCEDURE [$(schema)].[note_ends]
    @queue_id int,
    @members  [$(schema)].[member_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @batch_id bigint, @halts bit = 0, @is_fair bit = 0;
DECLARE @ended TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED, done int NOT NULL, dead int NOT NULL,
    cancelled int NOT NULL);
DECLARE @complete TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED, is_complete bit NOT NULL);

INSERT @ended (batch_id, done, dead, cancelled)
SELECT m.batch_id, SUM(CASE WHEN m.state = 3 THEN 1 ELSE 0 END), SUM(CASE WHEN m.state = 4 THEN 1 ELSE 0 END),
    SUM(CASE WHEN m.state = 5 THEN 1 ELSE 0 END)
FROM @members AS m
WHERE m.batch_id IS NOT NULL AND m.state IN (3, 4, 5)
GROUP BY m.batch_id;
IF @@ROWCOUNT > 0
BEGIN
    UPDATE c
    SET done = c.done + e.done, dead = c.dead + e.dead, cancelled = c.cancelled + e.cancelled
    OUTPUT inserted.batch_id,
        CASE WHEN inserted.done + inserted.dead + inserted.cancelled >= inserted.members THEN 1 ELSE 0 END
    INTO @complete (batch_id, is_complete)
    FROM @ended AS e
    INNER LOOP JOIN [$(schema)].[batch_counts] AS c WITH (ROWLOCK, FORCESEEK, INDEX (batch_counts_pk))
        ON c.batch_id = e.batch_id
    WHERE c.ended_at IS NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    WHILE 1 = 1
    BEGIN
        SET @batch_id = (SELECT MIN(batch_id) FROM @complete WHERE is_complete = 1);
        IF @batch_id IS NULL
            BREAK;
        EXEC [$(schema)].[end_batch] @batch_id;
        UPDATE @complete SET is_complete = 0 WHERE batch_id = @batch_id;
    END;
END;

IF EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL AND in_turn = 1 AND state = 4)
    SET @halts = ISNULL((SELECT halt_groups FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
        WHERE queue_id = @queue_id), 0);
IF @halts = 1
    UPDATE j
    SET in_turn = 0
    FROM @members AS m
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
    WHERE m.group_key IS NOT NULL AND m.in_turn = 1 AND m.state = 4
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL AND in_turn IS NULL AND state = 5)
    SET @is_fair = ISNULL((SELECT fair FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
        WHERE queue_id = @queue_id), 0);
INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
SELECT @queue_id, m.group_key, SUM(CASE WHEN m.in_turn IS NULL THEN 0 ELSE 1 END),
    NULLIF(MIN(CASE WHEN m.state = 6 THEN m.job_id ELSE 9223372036854775807 END), 9223372036854775807)
FROM @members AS m
WHERE m.group_key IS NOT NULL
    AND (m.in_turn = 0 OR m.in_turn = 1 AND m.state >= 3 AND (m.state <> 4 OR @halts = 0)
         -- of a fair queue; ended ones may have been the last that waited in their group
         OR m.in_turn IS NULL AND (m.state = 6 OR m.state = 5 AND @is_fair = 1))
GROUP BY m.group_key;
GO
