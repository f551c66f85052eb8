-- Ranges of the ready indexes that are known to have no ready job. Claims skip them, because they contain ghosts
-- (entries that are deleted but not yet cleaned up). sweep corrects a wrong mark about once a second. There is a row
-- for each priority that a claim has met, but none for jobs that must run alone.
--
-- fifo and any: no job below job_id, the low-water mark, is ready. lifo: no job is ready in two gaps, from from_id to
-- job_id - 1 and, below that, from below_from to below_to - 1. Claims take the newest jobs, so they widen the upper gap
-- downwards until the two gaps meet. If jobs arrive above the upper gap faster than they are claimed, a new upper gap
-- starts above them, and the longer of the two old gaps is kept (widen_gap).
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
        lowered    bigint   NOT NULL,  -- grows when the mark is lowered, so that no older observation raises it
        CONSTRAINT marks_pk PRIMARY KEY CLUSTERED (queue_id, priority)
    );
GO
