-- How many unfinished jobs each queue had at its last count (procedure room).
IF OBJECT_ID(N'[$(schema)].[depths]', N'U') IS NULL
    CREATE TABLE [$(schema)].[depths]
    (
        queue_id int          NOT NULL,
        begun_at datetime2(3) NOT NULL CONSTRAINT depths_begun_at DEFAULT '00010101',  -- when the last count began
        -- of the last count that has ended:
        cost_ms  int          NOT NULL CONSTRAINT depths_cost_ms DEFAULT 0,  -- how long it took
        jobs     bigint       NULL,                                         -- NULL: none has ended yet
        last_id  bigint       NOT NULL CONSTRAINT depths_last_id DEFAULT 0,  -- jobs added later have higher ids
        CONSTRAINT depths_pk PRIMARY KEY CLUSTERED (queue_id)
    );
GO
