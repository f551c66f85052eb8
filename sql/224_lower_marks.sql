-- For the procedures that make jobs ready again: lowers the marks of a queue, so that the next claim finds the jobs
-- from @job_id on. To be called when the jobs are committed: a claim that meets the lowered mark then finds the jobs,
-- too. Inside a caller's transaction it does nothing, because the mark's row would stay locked; the next sweep finds
-- the jobs. It never fails, for the same reason: what it is called for has been done, and must not be reported as an
-- error. (The sweep changes the same rows, and promote tells what it fails with.)
CREATE OR ALTER PROCEDURE [$(schema)].[lower_marks]
    @queue_id int,
    @job_id   bigint,
    @priority smallint = NULL  -- NULL: of all priorities
AS
SET NOCOUNT ON;
SET XACT_ABORT OFF;
IF @@TRANCOUNT > 0
    RETURN;
BEGIN TRY
    -- What lies below @job_id stays as it is.
    UPDATE [$(schema)].[marks] WITH (ROWLOCK)
    SET job_id     = CASE WHEN job_id > @job_id THEN @job_id ELSE job_id END,
        from_id    = CASE WHEN from_id > @job_id THEN @job_id ELSE from_id END,
        below_to   = CASE WHEN below_to > @job_id THEN @job_id ELSE below_to END,
        below_from = CASE WHEN below_from > @job_id THEN @job_id ELSE below_from END,
        lowered    = lowered + 1
    WHERE queue_id = @queue_id AND priority >= ISNULL(@priority, -32768) AND priority <= ISNULL(@priority, 32767)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END TRY
BEGIN CATCH
    RETURN;
END CATCH;
GO
