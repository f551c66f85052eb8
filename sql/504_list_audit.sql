-- Lists operators' actions, the newest first: actions on one queue (by its name, even if it is deleted) or, with NULL,
-- all actions, including those on no queue. For the next page, pass the last id as @before. Costs a seek. Reads by
-- NOLOCK. Result: audit_id, began_at, ended_at (NULL: in progress, failed or interrupted), who, login, action, queue, what
-- (JSON), jobs, outcome. Later versions add columns at the end.
CREATE OR ALTER PROCEDURE [$(schema)].[list_audit]
    @queue  nvarchar(129) = NULL,
    @before bigint        = NULL,
    @max    int           = 100
AS
SET NOCOUNT, XACT_ABORT ON;

IF @max IS NULL OR @max < 0 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'0 to 1000';
SET @before = ISNULL(@before, 9223372036854775807);
IF @queue IS NULL
    SELECT TOP (@max) audit_id, began_at, ended_at, who, login, action, queue, what, jobs, outcome
    FROM [$(schema)].[audit] WITH (NOLOCK, FORCESEEK (audit_pk (audit_id)))
    WHERE audit_id < @before
    ORDER BY audit_id DESC
    OPTION (MAXDOP 1);
ELSE
    SELECT TOP (@max) audit_id, began_at, ended_at, who, login, action, queue, what, jobs, outcome
    FROM [$(schema)].[audit] WITH (NOLOCK, FORCESEEK (audit_queue (queue, audit_id)))
    WHERE queue = @queue AND audit_id < @before
    ORDER BY audit_id DESC
    OPTION (MAXDOP 1);
GO
