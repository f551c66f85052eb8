--@ behind
AS
SET NOCOUNT ON;
--@ put
THROW 58003, N'this queue is the table /*{table_text}*/: what comes at its times is to be inserted there, by an Agent job for instance', 1;
