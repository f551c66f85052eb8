-- Done jobs of queues with the completion policy archive. A claim never locks it.
IF OBJECT_ID(N'[$(schema)].[archive]', N'U') IS NULL
    CREATE TABLE [$(schema)].[archive]
    (
        job_id         bigint           NOT NULL,
        queue_id       int              NOT NULL,
        priority       smallint         NOT NULL,
        attempt        int              NOT NULL,
        fence          int              NOT NULL,
        enqueued_at    datetime2(3)     NOT NULL,
        due_at         datetime2(3)     NOT NULL,
        worker_id      uniqueidentifier NOT NULL,
        claimed_at     datetime2(3)     NOT NULL,
        finished_at    datetime2(3)     NOT NULL,
        run_us         bigint           NULL,
        cpu_us         bigint           NULL,
        peak_bytes     bigint           NULL,
        correlation_id uniqueidentifier NULL,
        kind           varchar(64)      COLLATE Latin1_General_100_BIN2 NULL,
        dedup_key      nvarchar(256)    COLLATE Latin1_General_100_BIN2 NULL,
        payload_utf16  bit              NOT NULL,
        payload        varbinary(max)   NOT NULL,
        error          nvarchar(4000)   NULL,
        output         varbinary(max)   NULL,
        time_limit_ms  int              NULL,
        headers        nvarchar(1500)   COLLATE Latin1_General_100_BIN2 NULL,
        batch_id       bigint           NULL,
        group_key      nvarchar(128)    COLLATE Latin1_General_100_BIN2 NULL,
        needs          varchar(1000)    COLLATE Latin1_General_100_BIN2 NULL,
        CONSTRAINT archive_pk PRIMARY KEY CLUSTERED (job_id)
    );
GO
