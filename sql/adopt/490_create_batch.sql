--@ behind
AS
SET NOCOUNT ON;
--@ put
THROW 58003, N'this queue is the table /*{table_text}*/: its rows belong to no batches', 1;
