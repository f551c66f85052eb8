--@ behind
AS
SET NOCOUNT ON;
--@ put
IF EXISTS (SELECT 1 FROM [$(schema)].[adoption] WHERE queue <> @queue)
    THROW 58003, N'this schema is the adoption of /*{table_text}*/: it has one queue', 1;
IF @completion <> 'delete' OR @delivery <> 'at_least_once' OR @claim_order <> 'fifo' OR @keep_done_s > 0 OR @group_limit > 1 OR @retry_passes = 1
    THROW 58003, N'this queue is the table /*{table_text}*/: what becomes of a done row, and in which order rows come, the mapping says, and there are no groups', 1;
IF @max_running > 0 OR @rate_jobs > 0
    THROW 58003, N'this queue is the table /*{table_text}*/: max_running and rate_jobs are for tables of readpast''s own', 1;
