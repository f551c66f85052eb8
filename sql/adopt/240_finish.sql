--@ in place of
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead bit NOT NULL, attempt int NULL);
--@ put
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead bit NOT NULL, attempt int NULL/*{found_columns}*/);
--@ in place of
    DELETE j
    OUTPUT deleted.job_id, 0 INTO @found (job_id, dead)
--@ put
    DELETE j
    OUTPUT deleted.job_id, 0/*{found_outputs}*/ INTO @found (job_id, dead/*{found_names}*/)
--@ before
    -- A job that was claimed once has no failed attempt.
--@ put
/*{done}*/
--@ before
    IF EXISTS (SELECT 1 FROM @found WHERE attempt IS NOT NULL)
    BEGIN
        INSERT @failed
--@ put
    -- Snoozed ones have not failed.
    INSERT @members (job_id, state)
    SELECT f.job_id, CASE WHEN f.outcome = 3 THEN 0 ELSE 1 END
    FROM @jobs AS f
    INNER JOIN @found AS d ON d.job_id = f.job_id
    WHERE f.outcome > 0;
    EXEC [$(schema)].[note_ends] @queue_id, @members;
    DELETE @members;

