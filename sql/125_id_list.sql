-- Jobs of a queue, for operators and producers.
IF TYPE_ID(N'[$(schema)].[id_list]') IS NULL
    CREATE TYPE [$(schema)].[id_list] AS TABLE
    (
        job_id bigint NOT NULL PRIMARY KEY CLUSTERED
    );
GO
