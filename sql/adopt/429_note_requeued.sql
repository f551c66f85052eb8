-- For requeue, in its transaction: jobs that were dead or cancelled wait again, so their rows of /*{table}*/ are marked as a claim marks them.
-- (An adopted table has neither batches nor groups, for which this procedure is otherwise.)
CREATE OR ALTER PROCEDURE [$(schema)].[note_requeued]
    @queue_id int,
    @members  [$(schema)].[member_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
/*{requeued}*/RETURN 0;
GO
