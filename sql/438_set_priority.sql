-- Gives up to 1,000 jobs that have not ended another priority; of a claimed one it counts when it comes back. It waits
-- for whoever is changing one of the jobs, in the order of job_id like everybody. Result: changed (not those that have
-- this priority already). A job that waits for its turn in its group gets it in the group's order, whatever its
-- priority.
CREATE OR ALTER PROCEDURE [$(schema)].[set_priority]
    @queue    nvarchar(129),
    @jobs     [$(schema)].[id_list] READONLY,
    @priority smallint  -- smaller runs first
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @first_ready bigint, @changed int, @granted bit;
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @priority IS NULL
    THROW 58003, N'priority must be between -32768 and 32767', 1;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must be up to 1000', 1;

BEGIN TRANSACTION;
IF EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
    EXEC [$(schema)].[lock_groups] @queue_id, NULL, @granted OUTPUT;
-- All rows first, in the order of job_id: an UPDATE promises no order.
INSERT @held (job_id)
SELECT j.job_id
FROM @jobs AS a
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.ended = 0 AND j.priority <> @priority
ORDER BY a.job_id  -- so that the join keeps to it
OPTION (MAXDOP 1);
UPDATE j
SET priority = @priority
FROM @held AS h
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = h.job_id
OPTION (MAXDOP 1);
SET @changed = @@ROWCOUNT;
COMMIT TRANSACTION;

-- Ready ones may stand below their new priority's mark.
SET @first_ready = (SELECT MIN(job_id) FROM @held);
IF @first_ready IS NOT NULL
    EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;

SELECT @changed AS changed;
GO
