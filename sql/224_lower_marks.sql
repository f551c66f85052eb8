-- Lowers the marks of a queue so that the next claim finds jobs from @job_id on. Called by procedures that make jobs
-- ready, after the commit, so that a claim that reads the lowered mark also sees the jobs. In a caller's transaction it
-- does nothing, because the marks would stay locked; the next sweep finds the jobs. It never fails, because its
-- caller's work is committed.
CREATE OR ALTER PROCEDURE [$(schema)].[lower_marks]
    @queue_id int,
    @job_id   bigint,
    @priority smallint = NULL  -- NULL: all priorities
AS
SET NOCOUNT ON;
SET XACT_ABORT OFF;
IF @@TRANCOUNT > 0
    RETURN;
BEGIN TRY
    -- The ranges below @job_id stay unchanged.
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
