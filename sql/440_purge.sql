-- Deletes up to @max jobs in one state, the oldest first; run it until it returns less than @max.
-- @state: done, dead, archived (@older_than_s seconds and more after they finished), or ready, scheduled (@older_than_s seconds and more
-- after they were enqueued). Claimed jobs cannot be purged. Result: purged.
CREATE OR ALTER PROCEDURE [$(schema)].[purge]
    @queue        nvarchar(128),
    @state        varchar(9),
    @older_than_s int = 0,
    @max          int = 1000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @before datetime2(3) = DATEADD(SECOND, -@older_than_s, SYSUTCDATETIME()), @queue_id int,
    @claim_order varchar(4), @purged int, @message nvarchar(2048);

SELECT @queue_id = queue_id, @claim_order = claim_order FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @state IS NULL OR @state NOT IN ('done', 'dead', 'archived', 'ready', 'scheduled')
BEGIN
    SET @message = CONCAT(N'state is ''', @state, N'''; it must be done, dead, archived, ready or scheduled');
    THROW 58003, @message, 1;
END;

IF @state = 'done'
    WITH old_jobs AS
    (
        SELECT TOP (@max) job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
        WHERE queue_id = @queue_id AND state = 3 AND state >= 3 AND finished_at <= @before ORDER BY finished_at
    )
    DELETE old_jobs;
ELSE IF @state = 'dead'
    WITH old_jobs AS
    (
        SELECT TOP (@max) job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
        WHERE queue_id = @queue_id AND state = 4 AND state >= 3 AND finished_at <= @before ORDER BY finished_at
    )
    DELETE old_jobs;
ELSE IF @state = 'archived'
    WITH old_jobs AS
    (
        SELECT TOP (@max) job_id FROM [$(schema)].[archive] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
        WHERE queue_id = @queue_id AND finished_at <= @before ORDER BY finished_at
    )
    DELETE old_jobs;
ELSE IF @state = 'ready' AND @claim_order = 'lifo'
    WITH old_jobs AS
    (
        SELECT TOP (@max) job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND enqueued_at <= @before ORDER BY priority, job_id DESC
    )
    DELETE old_jobs;
ELSE IF @state = 'ready'
    WITH old_jobs AS
    (
        SELECT TOP (@max) job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND enqueued_at <= @before ORDER BY priority, job_id
    )
    DELETE old_jobs;
ELSE
    WITH old_jobs AS
    (
        SELECT TOP (@max) job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
        WHERE queue_id = @queue_id AND state = 1 AND enqueued_at <= @before ORDER BY due_at
    )
    DELETE old_jobs;
SET @purged = @@ROWCOUNT;

-- The ready jobs that must run alone (see reap) stand in an index of their own.
IF @state = 'ready' AND @purged < @max
BEGIN
    WITH old_jobs AS
    (
        SELECT TOP (@max - @purged) job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1 AND enqueued_at <= @before ORDER BY priority, job_id
    )
    DELETE old_jobs;
    SET @purged = @purged + @@ROWCOUNT;
END;

SELECT @purged AS purged;
GO
