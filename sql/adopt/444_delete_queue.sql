--@ behind
AS
SET NOCOUNT ON;
--@ put
THROW 58003, N'this queue is the table /*{table_text}*/; "readpast adopt --remove" gives back what is held and removes the schema', 1;
