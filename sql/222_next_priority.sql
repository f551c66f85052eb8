-- Returns the next priority from @at_least on that may have ready jobs, with its mark; NULL if there is none. Called by
-- claim, claim_limited and look. @lowered belongs to the mark. It is NULL if no claim has met the priority yet, and the
-- priority then has a ready job. NOLOCK, because a claim must not wait, and a mark that is too low only means that more
-- entries are read.
CREATE OR ALTER PROCEDURE [$(schema)].[next_priority]
    @queue_id   int,
    @at_least   smallint,
    @priority   smallint OUTPUT,
    @job_id     bigint OUTPUT,
    @from_id    bigint OUTPUT,
    @below_to   bigint OUTPUT,
    @below_from bigint OUTPUT,
    @highest    bigint OUTPUT,
    @lowered    bigint OUTPUT
AS
SET NOCOUNT ON;
DECLARE @known smallint, @unknown smallint, @up_to smallint = 32767;

SELECT TOP (1) @known = m.priority, @job_id = m.job_id, @from_id = m.from_id, @below_to = m.below_to,
       @below_from = m.below_from, @highest = m.highest, @lowered = m.lowered
FROM [$(schema)].[marks] AS m WITH (NOLOCK)
WHERE m.queue_id = @queue_id AND m.priority >= @at_least
ORDER BY m.priority
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- A priority without a mark may come before the next one with a mark. READPAST, as in a claim.
IF @known > @at_least
    SET @up_to = @known - 1;
IF @known IS NULL OR @known > @at_least
    SELECT TOP (1) @unknown = j.priority
    FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
    WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0 AND j.priority >= @at_least
        AND j.priority <= @up_to
    ORDER BY j.priority
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

SET @priority = @known;
IF @unknown IS NOT NULL
    SELECT @priority = @unknown, @job_id = 0, @from_id = 0, @below_to = 0, @below_from = 0, @highest = 0,
        @lowered = NULL;
GO
