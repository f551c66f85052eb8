-- Checks when a job may start at the latest, for enqueue and set_schedule, and calculates it. enqueue_batch repeats the
-- rules. A time before the job is due is allowed: the job then expires.
CREATE OR ALTER PROCEDURE [$(schema)].[latest_start]
    @start_by        datetime2(3) OUTPUT,
    @start_within_ms bigint,        -- counted from @due
    @due             datetime2(3)
AS
SET NOCOUNT ON;  -- keeps the caller's XACT_ABORT, for @on_bad of enqueue
IF @start_by IS NOT NULL AND @start_within_ms IS NOT NULL
    THROW 58003, N'start_by and start_within_ms cannot be combined', 1;
IF @start_within_ms < 1 OR @start_within_ms > 315360000000
    EXEC [$(schema)].[refuse] N'start_within_ms', @start_within_ms, N'1 to 315360000000 (ten years)';
-- A due time in the last ten years of the calendar must not overflow.
SET @start_by = COALESCE(@start_by, DATEADD(MILLISECOND, @start_within_ms % 1000,
    DATEADD(SECOND, @start_within_ms / 1000, CASE WHEN @due < '99891201' THEN @due ELSE '99891201' END)));
GO
