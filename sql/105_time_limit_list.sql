-- The time limits of jobs to enqueue, beside the enqueue_list that has the jobs: only of those that have one of their own.
IF TYPE_ID(N'[$(schema)].[time_limit_list]') IS NULL
    CREATE TYPE [$(schema)].[time_limit_list] AS TABLE
    (
        ordinal       int    NOT NULL PRIMARY KEY CLUSTERED,  -- the job's
        time_limit_ms bigint NOT NULL
    );
GO
-- Granted here as well as in 900_roles: in an upgrade, the producers' procedures take this type before that script is run.
IF DATABASE_PRINCIPAL_ID(N'$(schema)_producer') IS NOT NULL
    GRANT EXECUTE ON TYPE::[$(schema)].[time_limit_list] TO [$(schema)_producer];
IF DATABASE_PRINCIPAL_ID(N'$(schema)_operator') IS NOT NULL
    GRANT EXECUTE ON TYPE::[$(schema)].[time_limit_list] TO [$(schema)_operator];
GO
