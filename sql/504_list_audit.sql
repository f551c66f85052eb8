-- What people have done, the newest first: of one queue, by its name, which need not exist any more, or, with NULL, of
-- all and of none. The next page begins below the last number of this one (@before). A seek; reads without locks
-- (NOLOCK).
-- Result: audit_id, began_at, ended_at (NULL: it was broken off, or is under way), who, login, action, queue, what
-- (JSON), jobs, outcome. Later versions add columns at the end.
CREATE OR ALTER PROCEDURE [$(schema)].[list_audit]
    @queue  nvarchar(129) = NULL,
    @before bigint        = NULL,
    @max    int           = 100
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;

IF @max IS NULL OR @max < 0 OR @max > 1000
    THROW 58003, N'max must be 0 to 1000', 1;
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
