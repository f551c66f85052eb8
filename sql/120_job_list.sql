-- Jobs that a worker holds.
IF TYPE_ID(N'[$(schema)].[job_list]') IS NULL
    CREATE TYPE [$(schema)].[job_list] AS TABLE
    (
        job_id bigint NOT NULL PRIMARY KEY CLUSTERED,
        fence  int    NOT NULL
    );
GO
