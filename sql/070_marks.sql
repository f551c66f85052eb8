-- Ranges of the ready indexes without a ready job, as far as known: claims skip them, because they hold ghosts (entries
-- that are deleted but not yet cleaned up). sweep corrects a wrong mark about once a second. A row for each priority
-- that a claim has met; jobs that must run alone have none.
--
-- fifo and any: no job below job_id, the low-water mark, is ready. lifo: two gaps, from from_id to job_id - 1 and from
-- below_from to below_to - 1 <= from_id - 1. Claims take the newest jobs and so widen the upper gap downwards until the
-- two meet. If jobs arrive above it faster than they are claimed, a new upper gap starts above them, and the longer of
-- the two old gaps stays (widen_gap).
IF OBJECT_ID(N'[$(schema)].[marks]', N'U') IS NULL
    CREATE TABLE [$(schema)].[marks]
    (
        queue_id   int      NOT NULL,
        priority   smallint NOT NULL,
        job_id     bigint   NOT NULL,
        from_id    bigint   NOT NULL CONSTRAINT marks_from_id DEFAULT 0,
        below_to   bigint   NOT NULL CONSTRAINT marks_below_to DEFAULT 0,
        below_from bigint   NOT NULL CONSTRAINT marks_below_from DEFAULT 0,
        highest    bigint   NOT NULL CONSTRAINT marks_highest DEFAULT 0,  -- lifo: the highest id seen
        lowered    bigint   NOT NULL,  -- grows when the mark is lowered, so that older observations do not raise it
        CONSTRAINT marks_pk PRIMARY KEY CLUSTERED (queue_id, priority)
    );
GO
