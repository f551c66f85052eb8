--@ before
WHILE @found = 0
BEGIN
--@ put
IF @found = 0 AND EXISTS (SELECT 1 FROM /*{table}*/ WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK/*{index_hint}*/)/*{where_in_look}*/)
    SET @found = 1;
