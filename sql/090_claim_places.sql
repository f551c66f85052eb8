-- The claimed jobs of a queue with a max_running of up to 1,000 (claim_limited), so that claims need not read
-- jobs_claimed from its head, where ghosts may be. A place counts only if jobs_claimed has the entry of its claim, so
-- finishing a job writes nothing here. Places are reused.
IF OBJECT_ID(N'[$(schema)].[claim_places]', N'U') IS NULL
    CREATE TABLE [$(schema)].[claim_places]
    (
        queue_id  int              NOT NULL,
        place     int              NOT NULL,  -- from 1, without gaps
        worker_id uniqueidentifier NOT NULL,
        job_id    bigint           NOT NULL,
        fence     int              NOT NULL,  -- distinguishes this claim from later claims of the job
        CONSTRAINT claim_places_pk PRIMARY KEY CLUSTERED (queue_id, place)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
