-- Lists batches: one batch by its id, or a page of the batches with their follow-up in a queue, the newest first. For
-- the next page, pass the last id as @before. Reads by NOLOCK. Each batch costs a few seeks and, while it is not
-- sealed, a row per call that has added jobs. Result: batch_id, name, parent_id, queue (of the follow-up), created_at,
-- sealed_at, ended_at, members, done, dead, cancelled, follow_up_id (NULL: none, or not enqueued yet).
CREATE OR ALTER PROCEDURE [$(schema)].[list_batches]
    @batch_id bigint        = NULL,
    @queue    nvarchar(129) = NULL,
    @open     bit           = 0,     -- 1: only batches that are not completed
    @before   bigint        = NULL,
    @max      int           = 100
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int;
DECLARE @page TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED);

IF @batch_id IS NULL
BEGIN
    SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name)))
        WHERE name = @queue;
    IF @queue_id IS NULL
        EXEC [$(schema)].[unknown_queue] @queue;
END;
IF @max IS NULL OR @max < 0 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'0 to 1000';
SET @before = ISNULL(@before, 9223372036854775807);

IF @batch_id IS NOT NULL
    INSERT @page (batch_id) VALUES (@batch_id);
ELSE IF @open = 1
    INSERT @page (batch_id)
    SELECT TOP (@max) c.batch_id
    FROM [$(schema)].[batch_counts] AS c WITH (NOLOCK, INDEX (batch_counts_ended))
    WHERE c.queue_id = @queue_id AND c.ended_at IS NULL AND c.batch_id < @before
    ORDER BY c.batch_id DESC
    OPTION (MAXDOP 1);
ELSE
    INSERT @page (batch_id)
    SELECT TOP (@max) c.batch_id
    FROM [$(schema)].[batch_counts] AS c WITH (NOLOCK, INDEX (batch_counts_queue))
    WHERE c.queue_id = @queue_id AND c.batch_id < @before
    ORDER BY c.batch_id DESC
    OPTION (MAXDOP 1);

SELECT b.batch_id, b.name, b.parent_id, q.name AS queue, b.created_at, b.sealed_at, c.ended_at,
       -- ISNULL, because COALESCE would run the subquery twice
       ISNULL(c.members, ISNULL((SELECT SUM(CAST(a.jobs AS bigint))
           FROM [$(schema)].[batch_additions] AS a WITH (NOLOCK) WHERE a.batch_id = b.batch_id), 0)) AS members,
       c.done, c.dead, c.cancelled, c.follow_up_id
FROM @page AS p
INNER LOOP JOIN [$(schema)].[batches] AS b WITH (NOLOCK, FORCESEEK (batches_pk (batch_id))) ON b.batch_id = p.batch_id
INNER LOOP JOIN [$(schema)].[batch_counts] AS c WITH (NOLOCK, FORCESEEK (batch_counts_pk (batch_id)))
    ON c.batch_id = p.batch_id
INNER LOOP JOIN [$(schema)].[queues] AS q WITH (NOLOCK, FORCESEEK (queues_pk (queue_id))) ON q.queue_id = b.queue_id
ORDER BY p.batch_id DESC
OPTION (MAXDOP 1);
GO
