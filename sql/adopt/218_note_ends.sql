-- For those who end jobs otherwise than by done, or whose jobs have failed, in their transaction: does to the rows of /*{table}*/ what the mapping
-- says. The caller holds the jobs' rows, and has changed them: a job that is dead (4) or cancelled (5) has ended; one that waits (0, 1), and of which
-- @members says state 1, has failed and will be tried again.
-- (An adopted table has neither batches nor groups, for which this procedure is otherwise.)
CREATE OR ALTER PROCEDURE [$(schema)].[note_ends]
    @queue_id int,
    @members  [$(schema)].[member_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
/*{failed}*//*{dead}*/RETURN 0;
GO
