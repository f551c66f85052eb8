-- For queues with a rate: how many jobs were claimed in each hundredth of its interval (claim_limited).
IF OBJECT_ID(N'[$(schema)].[claim_rates]', N'U') IS NULL
    CREATE TABLE [$(schema)].[claim_rates]
    (
        queue_id int    NOT NULL,
        slot_ms  bigint NOT NULL,  -- start of the slot: milliseconds since 2000
        claimed  int    NOT NULL,
        CONSTRAINT claim_rates_pk PRIMARY KEY CLUSTERED (queue_id, slot_ms)
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF)
    );
GO
