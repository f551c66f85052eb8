-- A job. state: 0 ready, 1 scheduled, 2 claimed, 3 done, 4 dead, 5 cancelled, 6 waiting (for its turn in a group, or
-- for other jobs).
-- States are literals everywhere, because the optimizer uses a filtered index only if the predicate implies its filter.

-- A sequence and not an IDENTITY, because enqueue_batch numbers jobs in the producer's order but inserts them in key
-- order.
IF OBJECT_ID(N'[$(schema)].[job_ids]', N'SO') IS NULL
    CREATE SEQUENCE [$(schema)].[job_ids] AS bigint START WITH 1 INCREMENT BY 1 CACHE 1000;
GO
IF OBJECT_ID(N'[$(schema)].[jobs]', N'U') IS NULL
    CREATE TABLE [$(schema)].[jobs]
    (
        job_id         bigint           NOT NULL,
        queue_id       int              NOT NULL,
        state          tinyint          NOT NULL,
        -- 1: done, dead or cancelled (see jobs_dedup)
        ended          bit              NOT NULL CONSTRAINT jobs_ended DEFAULT 0,
        -- 1: only a worker that holds no other job can claim it (see reap)
        alone          bit              NOT NULL CONSTRAINT jobs_alone DEFAULT 0,
        payload_utf16  bit              NOT NULL,  -- 1: the payload came as nvarchar
        priority       smallint         NOT NULL,  -- smaller runs first
        attempt        int              NOT NULL CONSTRAINT jobs_attempt DEFAULT 0,
        max_attempts   int              NULL,      -- NULL: as for the queue
        fence          int              NOT NULL CONSTRAINT jobs_fence DEFAULT 0,
        enqueued_at    datetime2(3)     NOT NULL,
        due_at         datetime2(3)     NOT NULL,  -- equals enqueued_at if the job had no delay
        worker_id      uniqueidentifier NULL,      -- the worker that holds it or held it last
        claimed_at     datetime2(3)     NULL,
        finished_at    datetime2(3)     NULL,
        run_us         bigint           NULL,      -- duration of the last run, by the worker's monotonic clock
        cpu_us         bigint           NULL,      -- CPU time of the last run, if known
        peak_bytes     bigint           SPARSE NULL,  -- peak memory of the last run, if known
        correlation_id uniqueidentifier NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,  -- chooses the handler
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        payload        varbinary(max)   NOT NULL,
        error          nvarchar(4000)   NULL,      -- the error of the last failed attempt
        output         varbinary(max)   NULL,
        time_limit_ms  int              NULL,      -- NULL: the limit of the kind or the worker
        checkpointed   bit              NULL,      -- 1: the table progress has a checkpoint
        cancelling     bit              NULL,      -- 1: claimed, and its cancellation is requested
        headers        nvarchar(1500)   COLLATE Latin1_General_100_BIN2 NULL,  -- a JSON object
        batch_id       bigint           NULL,
        group_key      nvarchar(128)    COLLATE Latin1_General_100_BIN2 NULL,
        -- 1: holds one of the turns of its group (group_limit); 0: is dead and keeps its turn (halt_groups)
        in_turn        bit              NULL,
        held           bit              SPARSE NULL,  -- 1: it waits for other jobs (edges); 0: it has waited
        moves          tinyint          SPARSE NULL,  -- how often it was moved to another queue; NULL: never
        needs          varchar(1000)    COLLATE Latin1_General_100_BIN2 NULL,  -- a JSON object (check_needs)
        start_by       datetime2(3)     SPARSE NULL,  -- if it has not started by then, it expires (cancel_expired)
        plain          bit              NULL,      -- 1: the job has no details (NULL)
        -- The rare attributes for claim, as one JSON object. Not persisted. It has at most 3,504 characters: dedup_key
        -- 2 * 256 + 2 (check_text rejects characters whose escapes are longer than two), correlation_id 38,
        -- time_limit_ms 10, checkpointed 5, headers 1,500, batch_id 19, group_key 2 * 128 + 2, needs 1,000, start_by_ms
        -- 15, has_parents 5, and 140 for the names and the punctuation.
        details AS CASE
            WHEN plain = 1 THEN NULL
            WHEN dedup_key IS NOT NULL OR correlation_id IS NOT NULL OR time_limit_ms IS NOT NULL OR checkpointed = 1
                OR headers IS NOT NULL OR batch_id IS NOT NULL OR group_key IS NOT NULL OR needs IS NOT NULL
                OR start_by IS NOT NULL OR held IS NOT NULL
            THEN CAST(CONCAT(
                N'{"dedup_key":', ISNULL(N'"' + STRING_ESCAPE(dedup_key, 'json') + N'"', N'null'),
                N',"correlation_id":', ISNULL(N'"' + CONVERT(nvarchar(36), correlation_id) + N'"', N'null'),
                N',"time_limit_ms":', ISNULL(CONVERT(nvarchar(11), time_limit_ms), N'null'),
                N',"checkpointed":', CASE WHEN checkpointed = 1 THEN N'true' ELSE N'false' END,
                N',"headers":', ISNULL(headers, N'null'),
                N',"batch_id":', ISNULL(CONVERT(nvarchar(20), batch_id), N'null'),
                N',"group_key":', ISNULL(N'"' + STRING_ESCAPE(group_key, 'json') + N'"', N'null'),
                N',"needs":', ISNULL(needs, N'null'),
                -- counted from enqueued_at, as age_ms is, so that a worker needs no clock of SQL Server's
                N',"start_by_ms":',
                    ISNULL(CONVERT(nvarchar(20), DATEDIFF_BIG(MILLISECOND, enqueued_at, start_by)), N'null'),
                N',"has_parents":', CASE WHEN held IS NULL THEN N'false' ELSE N'true' END,
                N'}') AS nvarchar(4000))
        END,
        CONSTRAINT jobs_pk PRIMARY KEY CLUSTERED (job_id)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
