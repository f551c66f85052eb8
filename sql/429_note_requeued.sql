-- For requeue, in its transaction: counts jobs of open batches as unfinished again, and lets jobs of groups wait for
-- their turn. The column state has the previous state.
CREATE OR ALTER PROCEDURE [$(schema)].[note_requeued]
    @queue_id int,
    @members  [$(schema)].[member_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @back TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead int NOT NULL, cancelled int NOT NULL);

INSERT @back (batch_id, dead, cancelled)
SELECT m.batch_id, SUM(CASE WHEN m.state = 4 THEN 1 ELSE 0 END), SUM(CASE WHEN m.state = 5 THEN 1 ELSE 0 END)
FROM @members AS m
WHERE m.batch_id IS NOT NULL
GROUP BY m.batch_id;
IF @@ROWCOUNT > 0
    UPDATE c
    SET dead = c.dead - b.dead, cancelled = c.cancelled - b.cancelled
    FROM @back AS b
    INNER LOOP JOIN [$(schema)].[batch_counts] AS c WITH (ROWLOCK, FORCESEEK, INDEX (batch_counts_pk))
        ON c.batch_id = b.batch_id
    WHERE c.ended_at IS NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
SELECT @queue_id, m.group_key, SUM(CASE WHEN m.in_turn = 0 THEN 1 ELSE 0 END), MIN(m.job_id) FROM @members AS m
WHERE m.group_key IS NOT NULL GROUP BY m.group_key;
GO
