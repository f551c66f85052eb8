--@ before
    UPDATE [$(schema)].[samples]
    SET sampled_at    = @now,
--@ put
    -- Rows of /*{table}*/ are counted up to 100,000; the oldest is the first in their order.
    SET @counted = (SELECT COUNT_BIG(*) FROM (SELECT TOP (100000) 1 AS one FROM /*{table}*/ WITH (NOLOCK/*{index_hint}*/)/*{where_in_look}*/) AS h);
    SET @ready = @ready + @counted;
    IF @counted > 0
        SET @due_at = (SELECT TOP (1) /*{due_of_theirs}*/ FROM /*{table}*/ WITH (NOLOCK/*{index_hint}*/)/*{where_in_look}*//*{order_by}*/);
    IF @counted > 0 AND (@oldest IS NULL OR @due_at < @oldest)
        SET @oldest = @due_at;

