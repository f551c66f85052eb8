
-- A row whose key has a job already was made ready by somebody else: the job is taken over, its fence grows, its attempts begin
-- again. (The failed ones stay listed, as after a requeue.) First the numbers, from the index alone; then the jobs by their numbers,
-- each before its index entries, as everybody locks them.
INSERT @known (job_id, place)
SELECT j.job_id, k.place
FROM @rows AS k
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_their_key)) ON /*{key_of_jobs}*/
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT > 0
BEGIN
    -- A job that this very call has claimed above is in the answer already: it runs once, and its row is marked again.
    UPDATE j
    SET state = 2, ended = 0, alone = 0, fence = j.fence + 1, attempt = /*{attempt}*/, worker_id = @worker_id, claimed_at = @now,
        enqueued_at = /*{created}*/, due_at = /*{due}*/, priority = /*{priority}*/, kind = /*{kind}*/, finished_at = NULL, run_us = NULL,
        error = NULL, cancelling = NULL, checkpointed = NULL,  -- that was of the old payload
        payload_utf16 = /*{utf16}*/, payload = /*{payload}*//*{kept_again}*/
    OUTPUT inserted.job_id, inserted.fence, inserted.attempt, inserted.priority, inserted.due_at, inserted.enqueued_at, inserted.kind,
           inserted.payload_utf16, CASE WHEN @payloads = 1 THEN inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END,
           /*{details}*/
    INTO @answer (job_id, fence, attempt, priority, due_at, enqueued_at, kind, payload_utf16, payload, details)
    FROM @known AS n
    INNER LOOP JOIN @rows AS k ON k.place = n.place
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = n.job_id
    WHERE NOT (j.state = 2 AND j.worker_id = @worker_id AND j.claimed_at = @now)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    -- What is left gets a job, also where the one it had is gone by now.
    DELETE k
    FROM @known AS n
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = n.job_id
    INNER LOOP JOIN @rows AS k ON k.place = n.place
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;
