-- Reports of running jobs; NULL leaves a value as it is.
IF TYPE_ID(N'[$(schema)].[progress_list]') IS NULL
    CREATE TYPE [$(schema)].[progress_list] AS TABLE
    (
        job_id       bigint         NOT NULL PRIMARY KEY CLUSTERED,
        fence        int            NOT NULL,
        fraction     real           NULL,
        text         nvarchar(400)  NULL,
        [checkpoint] varbinary(max) NULL,
        log_end      bigint         NULL,  -- with log: how many bytes of UTF-8 the log has in all
        log          nvarchar(max)  NULL,  -- the last of them
        keeps_log    bit            NULL   -- 1: the attempt has ended, and its log stays
    );
GO
