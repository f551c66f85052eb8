-- Acknowledgements. outcome: 0 done, 1 retry, 2 dead, 3 snooze (as retry, but the attempt does not count).
-- The clustered key gives the order in which rows are locked, so that two finishers cannot deadlock.
IF TYPE_ID(N'[$(schema)].[finish_list]') IS NULL
    CREATE TYPE [$(schema)].[finish_list] AS TABLE
    (
        job_id   bigint         NOT NULL PRIMARY KEY CLUSTERED,
        fence    int            NOT NULL,
        outcome  tinyint        NOT NULL,
        retry_ms bigint         NULL,  -- outcome 1 and 3: how long to wait; NULL or 0: ready at once
        run_us   bigint         NULL,
        error    nvarchar(4000) NULL,
        output   varbinary(max) NULL   -- outcome 0: for the sink, and kept by the policies annotate and archive
    );
GO
