-- Operators' actions. A row is added before the action and completed after it. Without an end, the action is in
-- progress, has failed or was interrupted. Rows are kept for at least 400 days (begin_audit).
IF OBJECT_ID(N'[$(schema)].[audit]', N'U') IS NULL
    CREATE TABLE [$(schema)].[audit]
    (
        audit_id bigint        NOT NULL IDENTITY (1, 1),
        began_at datetime2(3)  NOT NULL,
        ended_at datetime2(3)  NULL,
        who      nvarchar(256) NOT NULL,  -- the person, as named by the program
        login    nvarchar(128) NOT NULL,  -- the program's login
        action   varchar(32)   COLLATE Latin1_General_100_BIN2 NOT NULL,
        -- the queue's name, because the row outlives the queue; NULL: none or several
        queue    nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
        what     nvarchar(max) NULL,      -- which jobs, or other details, as JSON
        jobs     bigint        NULL,      -- how many jobs were changed
        outcome  nvarchar(400) NULL,      -- the result or the error
        CONSTRAINT audit_pk PRIMARY KEY CLUSTERED (audit_id),
        INDEX audit_queue NONCLUSTERED (queue, audit_id)
    );
GO
