-- The adoption that is installed in the schema, if there is one: its mapping, and what the table was.
IF OBJECT_ID(N'[$(schema)].[adoption]', N'U') IS NOT NULL
    SELECT mapping, facts FROM [$(schema)].[adoption];
