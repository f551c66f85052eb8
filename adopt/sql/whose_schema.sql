-- Whether the schema has objects, and no installation of readpast's. Of that, each role sees schema_info, and only owners see the table.
SELECT CASE WHEN OBJECT_ID(N'[$(schema)].[schema_version]', N'U') IS NULL AND OBJECT_ID(N'[$(schema)].[schema_info]', N'P') IS NULL
                AND EXISTS (SELECT 1 FROM sys.objects WHERE schema_id = SCHEMA_ID(N'$(schema)'))
            THEN 1 ELSE 0 END AS is_somebody_elses;
