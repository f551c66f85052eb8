-- For claim and sweep of a lifo queue. The caller has read the mark, whose column lowered was @lowered, and then found
-- no ready job from @from_id to @up_to. Widens the mark's upper gap by this range or, if jobs are ready in between,
-- starts a new gap (see marks). The last 32 ids are left out for producers that commit later. Writes only if that gains
-- much. Does nothing in a caller's transaction, which would keep the mark locked.
CREATE OR ALTER PROCEDURE [$(schema)].[widen_gap]
    @queue_id int,
    @priority smallint,
    @lowered  bigint,
    @from_id  bigint,
    @up_to    bigint
AS
SET NOCOUNT ON;
DECLARE @end_id bigint = @up_to - 32, @mark bigint, @gap_from bigint, @below_to bigint;
IF @@TRANCOUNT > 0
    RETURN;
SELECT @mark = job_id, @gap_from = from_id, @below_to = below_to
FROM [$(schema)].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id AND priority = @priority
OPTION (MAXDOP 1, KEEPFIXED PLAN);
-- The ids that were left out before are mostly without ready jobs by now, but no claim has read them.
IF @from_id > @mark AND @from_id <= @mark + 1000
    SELECT @from_id = @mark
    WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready))
                      WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                          AND job_id >= @mark AND job_id < @from_id)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @from_id <= @mark AND @gap_from < @from_id
    SET @from_id = @gap_from;
IF @from_id <= @mark AND @below_to > 0 AND @from_id > @below_to AND @from_id <= @below_to + 1000
    SELECT @from_id = @below_to
    WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready))
                      WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority
                          AND job_id >= @below_to AND job_id < @from_id)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
UPDATE [$(schema)].[marks] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
SET below_from = CASE WHEN @end_id <= @from_id THEN below_from
                      WHEN @from_id > job_id AND job_id - from_id > below_to - below_from THEN from_id
                      WHEN @from_id <= below_to THEN 0
                      ELSE below_from END,
    below_to   = CASE WHEN @end_id <= @from_id THEN below_to
                      WHEN @from_id > job_id AND job_id - from_id > below_to - below_from THEN job_id
                      WHEN @from_id <= below_to THEN 0
                      ELSE below_to END,
    from_id    = CASE WHEN @end_id <= @from_id THEN from_id
                      WHEN @from_id <= below_to AND below_from < @from_id THEN below_from
                      WHEN @from_id > job_id OR @from_id < from_id THEN @from_id
                      ELSE from_id END,
    job_id     = CASE WHEN @end_id <= @from_id THEN job_id ELSE @end_id END,
    highest    = CASE WHEN highest < @up_to THEN @up_to ELSE highest END
-- A gap with a higher end is from a later observation.
WHERE queue_id = @queue_id AND priority = @priority AND lowered = @lowered AND job_id <= @end_id
    AND (highest < @up_to - 32 OR job_id < @end_id - 32 OR @from_id < from_id - 32)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
