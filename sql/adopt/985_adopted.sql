-- The queue, what --check compares the table with, and what --remove runs.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WHERE name = /*{queue_literal}*/)
    EXEC [$(schema)].[create_queue] @queue = /*{queue_literal}*/;
EXEC [$(schema)].[create_queue] @queue = /*{queue_literal}*/, @max_attempts = /*{max_attempts}*//*{kept_for_ever}*/;
GO
/*{mapping}*//*{facts}*//*{give_back}*/DELETE [$(schema)].[adoption];
INSERT [$(schema)].[adoption] (queue, table_name, mapping, facts, kept, give_back)
VALUES (/*{queue_literal}*/, /*{table_literal}*/, @mapping, @facts, /*{kept}*/, @give_back);
GO
