-- What jobs have noted. NULL: as it was.
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
-- Granted here as well as in 900_roles, which an upgrade runs only after the procedures.
IF DATABASE_PRINCIPAL_ID(N'$(schema)_worker') IS NOT NULL
    GRANT EXECUTE ON TYPE::[$(schema)].[progress_list] TO [$(schema)_worker];
GO
