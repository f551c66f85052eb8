-- Failed attempts, for note_attempts.
IF TYPE_ID(N'[$(schema)].[attempt_list]') IS NULL
    CREATE TYPE [$(schema)].[attempt_list] AS TABLE
    (
        job_id     bigint           NOT NULL PRIMARY KEY CLUSTERED,
        fence      int              NOT NULL,
        attempt    int              NOT NULL,
        worker_id  uniqueidentifier NOT NULL,
        worker     nvarchar(128)    COLLATE Latin1_General_100_BIN2 NOT NULL,
        run_us     bigint           NULL,
        cpu_us     bigint           NULL,
        peak_bytes bigint           NULL,
        error      nvarchar(4000)   NULL
    );
GO
