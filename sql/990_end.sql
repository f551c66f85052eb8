-- End of the installation: the schema is version 1.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[schema_version] WHERE version = 1)
    INSERT [$(schema)].[schema_version] (version, min_compatible) VALUES (1, 1);
GO
SET LOCK_TIMEOUT -1;
EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
GO
