-- After the commit of procedures that have moved jobs to the queue @to (move_jobs), of which @first_id has the lowest
-- id: gives turns in its groups, and lets claims find the jobs. In a caller's transaction it does nothing. Then promote
-- and sweep do this.
CREATE OR ALTER PROCEDURE [$(schema)].[wake_moved]
    @to       nvarchar(129),
    @first_id bigint
AS
SET NOCOUNT ON;
IF @@TRANCOUNT > 0
    RETURN;
DECLARE @to_id int = (SELECT queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name)))
    WHERE name = @to);
EXEC [$(schema)].[advance_groups] @to_id;
EXEC [$(schema)].[lower_marks] @to_id, @first_id;
GO
