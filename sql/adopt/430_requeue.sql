A row that is gone does not come back with its job.
--@ behind
AS
SET NOCOUNT ON;
--@ put
/*{no_requeue}*/
