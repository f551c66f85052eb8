--@ behind
AS
SET NOCOUNT ON;
--@ put
IF @state IN ('ready', 'scheduled', 'waiting')
    THROW 58003, N'this queue is the table /*{table_text}*/: unfinished jobs are rows of it that are held; cancel them, or delete the rows there', 1;
