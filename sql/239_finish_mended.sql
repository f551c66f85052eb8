-- For finish, if an error has half of a surrogate pair: finishes the jobs with repaired errors (mend_text). Programs
-- cut errors within characters. If such errors were rejected, the jobs would run again after the lease has expired.
CREATE OR ALTER PROCEDURE [$(schema)].[finish_mended]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @jobs      [$(schema)].[finish_list] READONLY,
    @used      [$(schema)].[usage_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @job_id bigint, @last_id bigint = -9223372036854775808, @error nvarchar(max);
DECLARE @mended [$(schema)].[finish_list];

INSERT @mended (job_id, fence, outcome, retry_ms, run_us, error, output)
SELECT job_id, fence, outcome, retry_ms, run_us, error, output FROM @jobs;
WHILE 1 = 1
BEGIN
    SET @job_id = NULL;
    SELECT TOP (1) @job_id = job_id, @error = error FROM @mended WHERE job_id > @last_id AND error IS NOT NULL
        ORDER BY job_id;
    IF @job_id IS NULL
        BREAK;
    SET @last_id = @job_id;
    EXEC [$(schema)].[mend_text] @error OUTPUT;
    UPDATE @mended SET error = @error WHERE job_id = @job_id;
END;
EXEC [$(schema)].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @mended, @used = @used;
GO
