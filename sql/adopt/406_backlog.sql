--@ in place of
                                              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c);
--@ put
                                              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c)
               + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one FROM /*{table}*/ WITH (NOLOCK/*{index_hint}*/)/*{where_in_look}*/) AS c);
