-- The queue, and what --check compares the table with.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WHERE name = /*{queue_literal}*/)
    EXEC [$(schema)].[create_queue] @queue = /*{queue_literal}*/;
EXEC [$(schema)].[create_queue] @queue = /*{queue_literal}*/, @max_attempts = /*{max_attempts}*/;
GO
/*{mapping}*//*{facts}*/DELETE [$(schema)].[adoption];
INSERT [$(schema)].[adoption] (queue, table_name, mapping, facts)
VALUES (/*{queue_literal}*/, /*{table_literal}*/, @mapping, @facts);
GO
