-- $(schema)_worker: may run every procedure, and nothing else. $(schema)_producer: may enqueue, and nothing else.
-- Neither may touch a table: the procedures and the tables have one owner, so that SQL Server does not ask again (ownership chaining).
IF DATABASE_PRINCIPAL_ID(N'$(schema)_worker') IS NULL
    CREATE ROLE [$(schema)_worker];
GO
IF DATABASE_PRINCIPAL_ID(N'$(schema)_producer') IS NULL
    CREATE ROLE [$(schema)_producer];
GO
GRANT EXECUTE ON SCHEMA::[$(schema)] TO [$(schema)_worker];
GRANT EXECUTE ON OBJECT::[$(schema)].[enqueue] TO [$(schema)_producer];
GRANT EXECUTE ON OBJECT::[$(schema)].[enqueue_batch] TO [$(schema)_producer];
GRANT EXECUTE ON OBJECT::[$(schema)].[schema_info] TO [$(schema)_producer];
GRANT EXECUTE ON TYPE::[$(schema)].[enqueue_list] TO [$(schema)_producer];
GO
