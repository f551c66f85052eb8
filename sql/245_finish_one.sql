-- Acknowledges one job, as finish and finish_with do: for callers that cannot pass a table-valued parameter, or not a
-- row as large as this one's output (the driver of the Rust crate takes no value over 65,535 bytes into one). Takes
-- part in the caller's transaction. @follow_ups may be left out.
-- Result: as finish.
CREATE OR ALTER PROCEDURE [$(schema)].[finish_one]
    @queue      nvarchar(129),
    @worker_id  uniqueidentifier,
    @job_id     bigint,
    @fence      int,
    @outcome    tinyint        = 0,     -- 0 done, 1 retry, 2 dead, 3 snooze
    @retry_ms   bigint         = NULL,  -- outcome 1 and 3: how long to wait; NULL or 0: ready at once
    @run_us     bigint         = NULL,
    @error      nvarchar(4000) = NULL,
    @output     varbinary(max) = NULL,  -- outcome 0: for the sink, and kept by the policies annotate and archive
    @follow_ups [$(schema)].[follow_up_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @jobs [$(schema)].[finish_list];

INSERT @jobs (job_id, fence, outcome, retry_ms, run_us, error, output)
VALUES (@job_id, @fence, @outcome, @retry_ms, @run_us, @error, @output);

IF EXISTS (SELECT 1 FROM @follow_ups)
    EXEC [$(schema)].[finish_with] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs, @follow_ups = @follow_ups;
ELSE
    EXEC [$(schema)].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs;
GO
