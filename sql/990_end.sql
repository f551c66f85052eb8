-- End of the installation: the schema is version 1.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[schema_version] WHERE version = 1)
    INSERT [$(schema)].[schema_version] (version, min_compatible) VALUES (1, 1);
-- The first home. (A database that is a copy of another has one.)
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[homes])
    EXEC [$(schema)].[check_home] @confirm = 1;
GO
SET LOCK_TIMEOUT -1;
EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
GO
