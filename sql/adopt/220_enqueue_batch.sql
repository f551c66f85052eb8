--@ behind
AS
SET NOCOUNT ON;
--@ put
THROW 58003, N'this queue is the table /*{table_text}*/: to enqueue a job, insert a row there', 1;
