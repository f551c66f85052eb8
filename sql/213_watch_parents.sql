-- For the parents of new edges: sees to it that the end of each is noted (note_edges), and notes it for those that have
-- ended. Called by enqueue and enqueue_batch, in their transaction, after they have inserted the edges.
--
-- A call that ends a parent changes its row before it looks for edges, even uncommitted ones. So either that call finds
-- the edges, or this one waits for it and reads that the parent has ended. An enqueue thus waits for an uncommitted
-- finish of a parent.
CREATE OR ALTER PROCEDURE [$(schema)].[watch_parents]
    @ids [$(schema)].[id_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int, @again bit = 1;
-- state: NULL for a parent that has not ended, 0 for one without a row
DECLARE @parents TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, queue_id int NULL, state tinyint NULL);
DECLARE @linked TABLE (queue_id int NOT NULL PRIMARY KEY CLUSTERED);

-- Reads again after a queue was linked, because a finish may have missed the link.
WHILE @again = 1
BEGIN
    SET @again = 0;
    DELETE @parents;
    -- READCOMMITTEDLOCK: waits for a change of the parent even under READ_COMMITTED_SNAPSHOT.
    INSERT @parents (job_id, queue_id, state)
    SELECT i.job_id, j.queue_id, CASE WHEN j.job_id IS NULL THEN 0 WHEN j.ended = 1 THEN j.state END
    FROM @ids AS i
    LEFT LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        ON j.job_id = i.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    WHILE 1 = 1
    BEGIN
        SET @queue_id = (SELECT MIN(p.queue_id) FROM @parents AS p
                         WHERE ISNULL(p.state, 4) IN (4, 5)  -- a dead or cancelled one may be requeued
                             AND NOT EXISTS (SELECT 1 FROM @linked AS l WHERE l.queue_id = p.queue_id));
        IF @queue_id IS NULL
            BREAK;
        INSERT @linked (queue_id) VALUES (@queue_id);
        EXEC [$(schema)].[link_queue] @queue_id;
        SET @again = 1;
    END;
END;
INSERT [$(schema)].[edge_events] WITH (ROWLOCK) (job_id, state, is_gone)
SELECT p.job_id, p.state, 0 FROM @parents AS p WHERE p.state IS NOT NULL;
GO
