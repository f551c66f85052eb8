-- End of the installation: from here on the schema counts as version 1.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[schema_version] WHERE version = 1)
    INSERT [$(schema)].[schema_version] (version) VALUES (1);
GO
EXEC sys.sp_releaseapplock @Resource = N'readpast.install.$(schema)', @LockOwner = N'Session';
GO
