--@ in place of
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.alone = 1) AS c) AS i) AS r
--@ put
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.alone = 1) AS c
                   UNION ALL
                   SELECT (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) 1 AS one FROM /*{table}*/ WITH (NOLOCK/*{index_hint}*/)/*{where_in_look}*/) AS c),
                          (SELECT TOP (1) /*{due_of_theirs}*/ FROM /*{table}*/ WITH (NOLOCK/*{index_hint}*/)/*{where_in_look}*//*{order_by}*/)) AS i) AS r
