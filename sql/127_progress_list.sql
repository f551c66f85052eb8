-- Reports of running jobs; NULL leaves a value as it is.
IF TYPE_ID(N'[$(schema)].[progress_list]') IS NULL
    CREATE TYPE [$(schema)].[progress_list] AS TABLE
    (
        job_id       bigint         NOT NULL PRIMARY KEY CLUSTERED,
        fence        int            NOT NULL,
        fraction     real           NULL,
        text         nvarchar(400)  NULL,
        [checkpoint] varbinary(max) NULL
    );
GO
