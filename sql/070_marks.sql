-- Low-water marks: no job of this queue and priority is ready below job_id, as far as is known. A claim and a look begin there instead of at the
-- head of the index, which may be full of entries that are deleted but not yet cleaned up (ghosts). A mark only saves reading: the worker that
-- has the duties compares it with the index every second or so (sweep), so that what it passed over by mistake is found then.
-- A row for each priority that a claim has met. Only for jobs of the index jobs_ready.
IF OBJECT_ID(N'[$(schema)].[marks]', N'U') IS NULL
    CREATE TABLE [$(schema)].[marks]
    (
        queue_id int      NOT NULL,
        priority smallint NOT NULL,
        job_id   bigint   NOT NULL,
        lowered  bigint   NOT NULL,  -- grows when the mark is lowered: what was seen before does not raise it again
        CONSTRAINT marks_pk PRIMARY KEY CLUSTERED (queue_id, priority)
    );
GO
