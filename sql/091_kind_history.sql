-- How the jobs of each kind ended and what they used, by the hour in which workers reported it (note_kinds), for
-- list_kinds and peaks_by_kind. Rows are kept for seven days (thin_history).
--
-- The values of a measure are counted in buckets, which can be added up over workers, hours and kinds. Bucket 0 is for
-- 0, and two buckets follow for each power of two: 2 for 1, 4 for 2, 5 for 3, 6 for 4 to 5, 7 for 6 to 7, 8 for 8 to
-- 11, 9 for 12 to 15, and so on.
IF OBJECT_ID(N'[$(schema)].[kind_history]', N'U') IS NULL
    CREATE TABLE [$(schema)].[kind_history]
    (
        queue_id int          NOT NULL,
        hour     datetime2(0) NOT NULL,  -- the start of the hour
        -- '': without a kind; ' other kinds': over 50 in this hour (no kind begins with a space)
        kind     varchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL,
        -- Run time in microseconds: 1 done, 2 failed and retried, 3 failed and dead. 4: CPU time in microseconds,
        -- 5: peak memory in bytes, of all runs for which they are known.
        measure  tinyint      NOT NULL,
        bucket   tinyint      NOT NULL,
        jobs     bigint       NOT NULL,
        total    float        NOT NULL,  -- the sum of the values
        largest  bigint       NOT NULL,  -- the largest value
        CONSTRAINT kind_history_pk PRIMARY KEY CLUSTERED (queue_id, hour, kind, measure, bucket)
            WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
