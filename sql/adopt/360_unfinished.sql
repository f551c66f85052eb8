--@ in place of
    SET @ready = 1;

SET @next_due_at
--@ put
    SET @ready = 1;
IF @ready = 0 AND EXISTS (SELECT 1 FROM /*{table}*/ WITH (NOLOCK/*{index_hint}*/)/*{where_in_look}*/)
    SET @ready = 1;

SET @next_due_at
