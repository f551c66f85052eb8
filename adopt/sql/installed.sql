-- The adoption installed in the schema, if any: its mapping, and the table at that time.
IF OBJECT_ID(N'[$(schema)].[adoption]', N'U') IS NOT NULL
    SELECT mapping, facts FROM [$(schema)].[adoption];
