-- The jobs that are claimed of a queue with max_running, of at most 1,000 (see claim_limited), each in a place that is
-- used again when the job is not claimed any more. A place says nothing by itself: whoever counts looks for the entry
-- of its claim in jobs_claimed. So claims need not read that index from its head, where entries that are deleted may
-- not be cleaned up (ghosts), and whoever ends a job writes nothing here.
IF OBJECT_ID(N'[$(schema)].[claim_places]', N'U') IS NULL
    CREATE TABLE [$(schema)].[claim_places]
    (
        queue_id  int              NOT NULL,
        place     int              NOT NULL,  -- from 1 on, without gaps
        worker_id uniqueidentifier NOT NULL,
        job_id    bigint           NOT NULL,
        fence     int              NOT NULL,  -- tells this claim from a later one of the same job
        CONSTRAINT claim_places_pk PRIMARY KEY CLUSTERED (queue_id, place)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
