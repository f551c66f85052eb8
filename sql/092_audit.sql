-- What people have done to queues and jobs, as the programs note it that they do it with. A row is written before the
-- action and completed after it, so that one without an end was broken off, or is under way. Kept for 400 days at least
-- (begin_audit). Not on the way of any job.
IF OBJECT_ID(N'[$(schema)].[audit]', N'U') IS NULL
    CREATE TABLE [$(schema)].[audit]
    (
        audit_id bigint        NOT NULL IDENTITY (1, 1),
        began_at datetime2(3)  NOT NULL,
        ended_at datetime2(3)  NULL,
        who      nvarchar(256) NOT NULL,  -- the person, as the program knows them
        login    nvarchar(128) NOT NULL,  -- who SQL Server knows: the program's login
        action   varchar(32)   COLLATE Latin1_General_100_BIN2 NOT NULL,
        -- by its name: the row stays when the queue is deleted. NULL: no one queue
        queue    nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
        what     nvarchar(max) NULL,      -- which jobs, or what else there is to say: JSON
        jobs     bigint        NULL,      -- how many were changed
        outcome  nvarchar(400) NULL,      -- how it ended, or the error
        CONSTRAINT audit_pk PRIMARY KEY CLUSTERED (audit_id),
        INDEX audit_queue NONCLUSTERED (queue, audit_id)
    );
GO
