-- Where the ready indexes have nothing, as far as is known, so that claims and looks need not read over entries that
-- are deleted but not yet cleaned up (ghosts). A mark only saves reading: the worker that has the duties compares it
-- with the index every second or so (sweep), so that what it passed over by mistake is found then. A row for each
-- priority that a claim has met. Jobs that must run alone have none.
--
-- fifo and any: no job is ready below job_id, the low-water mark. The other columns stay as they are. lifo: two gaps.
-- No job is ready from from_id to job_id - 1, nor from below_from to below_to - 1, where below_to is not above from_id.
-- Claims take the newest jobs first and so widen the upper gap downwards, until the two are one. Where new jobs come in
-- above it faster than they are claimed, the upper gap begins anew above those that wait, and of the two before it the
-- longer one stays (widen_gap).
IF OBJECT_ID(N'[$(schema)].[marks]', N'U') IS NULL
    CREATE TABLE [$(schema)].[marks]
    (
        queue_id   int      NOT NULL,
        priority   smallint NOT NULL,
        job_id     bigint   NOT NULL,
        from_id    bigint   NOT NULL CONSTRAINT marks_from_id DEFAULT 0,
        below_to   bigint   NOT NULL CONSTRAINT marks_below_to DEFAULT 0,
        below_from bigint   NOT NULL CONSTRAINT marks_below_from DEFAULT 0,
        highest    bigint   NOT NULL CONSTRAINT marks_highest DEFAULT 0,  -- lifo: the highest id that has been seen
        lowered    bigint   NOT NULL,  -- grows when the mark is lowered: what was seen before does not raise it again
        CONSTRAINT marks_pk PRIMARY KEY CLUSTERED (queue_id, priority)
    );
GO
