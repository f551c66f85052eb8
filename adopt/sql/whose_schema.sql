-- Whether the schema has objects but no installation of readpast. Each role sees schema_info; only owners see the
-- table.
SELECT CASE WHEN OBJECT_ID(N'[$(schema)].[schema_version]', N'U') IS NULL
                AND OBJECT_ID(N'[$(schema)].[schema_info]', N'P') IS NULL
                AND EXISTS (SELECT 1 FROM sys.objects WHERE schema_id = SCHEMA_ID(N'$(schema)'))
            THEN 1 ELSE 0 END AS is_somebody_elses;
