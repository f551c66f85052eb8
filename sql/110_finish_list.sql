-- Outcomes of jobs: 0 done, 1 retry, 2 dead, 3 snooze (a retry whose attempt does not count), 4 cancelled (its attempt
-- does not count). finish locks the jobs in the order of the key, so that two finish calls cannot deadlock.
IF TYPE_ID(N'[$(schema)].[finish_list]') IS NULL
    CREATE TYPE [$(schema)].[finish_list] AS TABLE
    (
        job_id   bigint         NOT NULL PRIMARY KEY CLUSTERED,
        fence    int            NOT NULL,
        outcome  tinyint        NOT NULL,
        retry_ms bigint         NULL,  -- outcomes 1 and 3: the delay; NULL or 0: ready at once
        run_us   bigint         NULL,
        error    nvarchar(4000) NULL,
        output   varbinary(max) NULL   -- outcome 0: for the sink and the policies annotate and archive
    );
GO
