
-- A row whose key has a job already was made ready by somebody else: the job is taken over, its fence grows, its attempts begin again.
IF EXISTS (SELECT 1
           FROM @rows AS k
           INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK, INDEX (jobs_their_key)) ON /*{key_of_jobs}*/)
BEGIN
    UPDATE j
    SET state = 2, ended = 0, alone = 0, fence = j.fence + 1, attempt = /*{attempt}*/, worker_id = @worker_id, claimed_at = @now,
        due_at = /*{due}*/, finished_at = NULL, run_us = NULL, error = NULL, cancelling = NULL,
        payload_utf16 = /*{utf16}*/, payload = /*{payload}*//*{kept_again}*/
    OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, @max_attempts AS max_attempts, inserted.priority,
           DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms,
           inserted.kind, inserted.payload_utf16,
           CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END AS payload,
           /*{details}*/ AS details
    FROM @rows AS k
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_their_key)) ON /*{key_of_jobs}*/
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    DELETE k
    FROM @rows AS k
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_their_key)) ON /*{key_of_jobs}*/
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;
