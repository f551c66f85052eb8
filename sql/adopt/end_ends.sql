    RETURN 0;
END TRY
BEGIN CATCH
    -- Values that a column or a constraint does not take. Whatever else there is, the caller gets.
    IF XACT_STATE() <> 1 OR ERROR_NUMBER() NOT IN (220, 242, 515, 517, 535, 547, 2601, 2627, 2628, 8115, 8134, 8152)
    BEGIN
        SET XACT_ABORT ON;
        THROW;
    END;
    SET @refusal = CONCAT(N'; its row was left as it is: error ', ERROR_NUMBER(), N': ', ERROR_MESSAGE());
    ROLLBACK TRANSACTION their_rows;
END CATCH;

IF (SELECT COUNT(*) FROM @members) = 1
    UPDATE j
    SET error = CONCAT(LEFT(j.error, 1900), @refusal)
    FROM @members AS m
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
ELSE
BEGIN
    SET @id = (SELECT MIN(job_id) FROM @members);
    WHILE @id IS NOT NULL
    BEGIN
        DELETE @one;
        INSERT @one (job_id, state) SELECT job_id, state FROM @members WHERE job_id = @id;
        EXEC [$(schema)].[note_ends] @queue_id, @one;
        SET @id = (SELECT MIN(job_id) FROM @members WHERE job_id > @id);
    END;
END;
