-- Records jobs that have ended, or are deleted, and that other jobs wait for. Called by procedures that end or delete
-- jobs of linked queues, in their transaction, after they have changed the rows (see watch_parents). NOLOCK: an uncommitted
-- edge counts, and nothing waits for its producer. An event without edges does no harm.
CREATE OR ALTER PROCEDURE [$(schema)].[note_edges]
    @ended [$(schema)].[member_list] READONLY,
    @noted int = NULL OUTPUT  -- how many
AS
SET NOCOUNT, XACT_ABORT ON;
INSERT [$(schema)].[edge_events] WITH (ROWLOCK) (job_id, state, is_gone)
SELECT m.job_id, COALESCE(j.state, CASE WHEN ISNULL(m.last_state, m.state) = 3 THEN 3 ELSE 5 END),
    CASE WHEN j.job_id IS NULL THEN 1 ELSE 0 END
FROM @ended AS m
LEFT LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = m.job_id
WHERE (j.job_id IS NULL OR j.ended = 1)
    AND (EXISTS (SELECT 1 FROM [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_pk (parent_id)))
                 WHERE e.parent_id = m.job_id)
         OR j.job_id IS NULL
            AND EXISTS (SELECT 1 FROM [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_child (child_id)))
                        WHERE e.child_id = m.job_id))
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @noted = @@ROWCOUNT;
GO
