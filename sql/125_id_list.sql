-- Jobs of a queue, for operators and producers.
IF TYPE_ID(N'[$(schema)].[id_list]') IS NULL
    CREATE TYPE [$(schema)].[id_list] AS TABLE
    (
        job_id bigint NOT NULL PRIMARY KEY CLUSTERED
    );
GO
-- Granted here as well as in 900_roles: in an upgrade, procedures that the roles may run already take this type before
-- that script is run.
IF DATABASE_PRINCIPAL_ID(N'$(schema)_producer') IS NOT NULL
    GRANT EXECUTE ON TYPE::[$(schema)].[id_list] TO [$(schema)_producer];
IF DATABASE_PRINCIPAL_ID(N'$(schema)_operator') IS NOT NULL
    GRANT EXECUTE ON TYPE::[$(schema)].[id_list] TO [$(schema)_operator];
IF DATABASE_PRINCIPAL_ID(N'$(schema)_monitor') IS NOT NULL
    GRANT EXECUTE ON TYPE::[$(schema)].[id_list] TO [$(schema)_monitor];
GO
