-- Finishes one job in the caller's transaction, as finish and finish_with do. For callers that have no table-valued
-- parameters, or an output of more than 65,535 bytes, which the Rust driver cannot send in such a parameter. Result: as
-- finish.
CREATE OR ALTER PROCEDURE [$(schema)].[finish_one]
    @queue      nvarchar(129),
    @worker_id  uniqueidentifier,
    @job_id     bigint,
    @fence      int,
    @outcome    tinyint        = 0,     -- 0 done, 1 retry, 2 dead, 3 snooze, 4 cancelled
    @retry_ms   bigint         = NULL,  -- outcomes 1 and 3: the delay; NULL or 0: ready at once
    @run_us     bigint         = NULL,
    @error      nvarchar(4000) = NULL,
    @output     varbinary(max) = NULL,  -- outcome 0: for the sink and the policies annotate and archive
    @follow_ups [$(schema)].[follow_up_list] READONLY,
    @move_to    nvarchar(129)  = NULL,  -- outcome 2: the queue that the job goes to instead (finish_with)
    @needs      nvarchar(1001) = NULL,  -- the job's needs from now on
    @cpu_us     bigint         = NULL,  -- what the run has used, as in usage_list
    @peak_bytes bigint         = NULL
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @jobs [$(schema)].[finish_list], @changes [$(schema)].[change_list], @used [$(schema)].[usage_list];

INSERT @jobs (job_id, fence, outcome, retry_ms, run_us, error, output)
VALUES (@job_id, @fence, @outcome, @retry_ms, @run_us, @error, @output);
IF @cpu_us IS NOT NULL OR @peak_bytes IS NOT NULL
    INSERT @used (job_id, cpu_us, peak_bytes) VALUES (@job_id, @cpu_us, @peak_bytes);

IF @move_to IS NOT NULL OR @needs IS NOT NULL
    INSERT @changes (job_id, queue, needs) VALUES (@job_id, @move_to, @needs);
IF EXISTS (SELECT 1 FROM @changes) OR EXISTS (SELECT 1 FROM @follow_ups)
    EXEC [$(schema)].[finish_with] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs, @follow_ups = @follow_ups,
        @changes = @changes, @used = @used;
ELSE
    EXEC [$(schema)].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs, @used = @used;
GO
