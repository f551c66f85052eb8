-- What runs have used, for finish and finish_with: only jobs whose row or failed attempt stays.
IF TYPE_ID(N'[$(schema)].[usage_list]') IS NULL
    CREATE TYPE [$(schema)].[usage_list] AS TABLE
    (
        job_id     bigint NOT NULL PRIMARY KEY CLUSTERED,
        cpu_us     bigint NULL,  -- CPU time; NULL: unknown
        peak_bytes bigint NULL   -- most memory at once; NULL: unknown
    );
GO
