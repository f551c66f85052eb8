--@ in place of
-- The adoption of a table has procedures of its own, which these would replace.
IF OBJECT_ID(N'[$(schema)].[adoption]', N'U') IS NOT NULL
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
    THROW 58003, N'schema $(schema) is the adoption of a table; install it again by readpast adopt MAPPING --install, or choose another schema', 1;
END;
GO

--@ put
