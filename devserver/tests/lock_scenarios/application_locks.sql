--- scenario sp_getapplock answers 0, 1 and -1
--- source docs/relational-databases/system-stored-procedures/sp-getapplock-transact-sql.md, Return code values
--- a rows 0
BEGIN TRANSACTION; DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'x', @LockMode = N'Exclusive'; SELECT @r;
--- b rows -1
BEGIN TRANSACTION; DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'x', @LockMode = N'Shared', @LockTimeout = 0; SELECT @r;
--- b blocks
DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'x', @LockMode = N'Shared'; SELECT @r;
--- a
COMMIT TRANSACTION;
--- b resumes rows 1

--- scenario application locks deadlock too
--- source docs/relational-databases/system-stored-procedures/sp-getapplock-transact-sql.md, Return code values
--- a rows 0
SET DEADLOCK_PRIORITY HIGH; BEGIN TRANSACTION; DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'x', @LockMode = N'Exclusive'; SELECT @r;
--- b rows 0
BEGIN TRANSACTION; DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'y', @LockMode = N'Exclusive'; SELECT @r;
--- a blocks
DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'y', @LockMode = N'Exclusive'; SELECT @r;
--- b rows -3
DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'x', @LockMode = N'Exclusive'; SELECT @r;
--- b
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
--- a resumes rows 1

--- scenario an application lock of the session outlives transactions
--- source docs/relational-databases/system-stored-procedures/sp-getapplock-transact-sql.md, Arguments
--- a rows 0
DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'x', @LockMode = N'Exclusive', @LockOwner = N'Session'; SELECT @r;
--- b blocks
DECLARE @r int; EXEC @r = sp_getapplock @Resource = N'x', @LockMode = N'Exclusive', @LockOwner = N'Session'; SELECT @r;
--- a rows 0
DECLARE @r int; EXEC @r = sp_releaseapplock @Resource = N'x', @LockOwner = N'Session'; SELECT @r;
--- b resumes rows 1
--- b rows Exclusive
SELECT APPLOCK_MODE(N'public', N'x', N'Session');

--- scenario sp_getapplock and sp_releaseapplock answer -999 to what they do not know
--- source docs/relational-databases/system-stored-procedures/sp-getapplock-transact-sql.md, Return code values
--- a rows -999,-999,-999,-999
DECLARE @mode int, @owner int, @timeout int, @release int;
EXEC @mode = sp_getapplock @Resource = N'q', @LockMode = 'Whatever', @LockOwner = 'Session';
EXEC @owner = sp_getapplock @Resource = N'q', @LockMode = 'Shared', @LockOwner = 'Whoever';
EXEC @timeout = sp_getapplock @Resource = N'q', @LockMode = 'Shared', @LockOwner = 'Session', @LockTimeout = -2;
EXEC @release = sp_releaseapplock @Resource = N'q', @LockOwner = 'Whoever';
SELECT @mode, @owner, @timeout, @release;

--- scenario an application lock that was taken twice is given back twice
--- source docs/relational-databases/system-stored-procedures/sp-releaseapplock-transact-sql.md, Remarks
--- a rows 0,0
DECLARE @first int, @second int;
EXEC @first = sp_getapplock @Resource = N'q', @LockMode = 'Exclusive', @LockOwner = 'Session';
EXEC @second = sp_getapplock @Resource = N'q', @LockMode = 'Exclusive', @LockOwner = 'Session';
SELECT @first, @second;
--- b blocks
DECLARE @result int; EXEC @result = sp_getapplock @Resource = N'q', @LockMode = 'Shared', @LockOwner = 'Session'; SELECT @result;
--- a
EXEC sp_releaseapplock @Resource = N'q', @LockOwner = 'Session';
--- b still blocked
--- a
EXEC sp_releaseapplock @Resource = N'q', @LockOwner = 'Session';
--- b resumes rows 1
--- a error 1223
EXEC sp_releaseapplock @Resource = N'q', @LockOwner = 'Session';
