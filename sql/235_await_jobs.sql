-- Waits until a queue has a job to claim, or for about @wait_ms. Changes nothing, and holds neither a transaction nor a
-- table lock: the session sleeps in WAITFOR DELAY, and checks the head of the ready indexes between two delays. Result:
-- found, waited. waited is 0 if no place was free: the call has then checked once, and the caller should try again much
-- later.
--
-- The database has @most_sessions places for all queues of all schemas, and one queue may take half of them. With NULL,
-- there are 64 places, which is an eighth of SQL Server's default number of worker threads, or a quarter of 'max worker
-- threads' if that is below 256. In Azure SQL Database it is at most a quarter of the workers of the service objective
-- ("Resource limits for single databases"). The size of an elastic pool is not visible, so there it is a quarter of the
-- smallest share of a database (25). Application locks belong to the database, but threads to the instance, so the
-- places of all databases of an instance add up.
--
-- Up to ten waiting sessions of the database share 50 to 60 checks per second: a session that waits alone checks every
-- 16 ms (16.7, because a datetime is a multiple of 1/300 s), and each further session adds 20 ms to the delay of all,
-- up to 200 ms (@most_ms). In small databases in Azure SQL Database and in those in elastic pools, two sessions share
-- 10 checks, or four share 20. Each further session then adds five. When a call begins, it counts the sessions by their
-- places. The checks of all databases of an instance add up.
--
-- An idle worker calls this on a connection of its own. The call costs a sleeping worker thread and a few index seeks
-- per check, whereas polling from outside would cost a call per check. Only a claim decides which worker gets a job.
CREATE OR ALTER PROCEDURE [$(schema)].[await_jobs]
    @queue         nvarchar(129),
    @least_ms      int,      -- the shortest delay between two checks, at least 10
    @most_ms       int,      -- the longest delay
    @wait_ms       int,      -- shorter than the caller's command timeout
    @most_sessions int = NULL  -- how many sessions may wait at the same time; each occupies a thread
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @share_ms int = 16, @delay_ms bigint, @places int = 64, @tested int = 0, @other nvarchar(255),
    @found bit = 0, @tier nvarchar(32), @own int, @first int, @slot int, @tries int = 0, @granted int = -1,
    @resource nvarchar(255);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @least_ms IS NULL OR @most_ms IS NULL OR @wait_ms IS NULL OR @least_ms < 1 OR @most_ms < @least_ms
    OR @most_ms > 3600000 OR @wait_ms < 1 OR @wait_ms > 3600000
    THROW 58003, N'least_ms must be 1 to most_ms, and most_ms and wait_ms must be at most 3600000 (an hour)', 1;
IF CAST(SERVERPROPERTY(N'EngineEdition') AS int) = 5
BEGIN
    SET @tier = ISNULL(CAST(DATABASEPROPERTYEX(DB_NAME(), 'ServiceObjective') AS nvarchar(32)), N'');
    SET @places = CASE WHEN @tier IN (N'', N'Free', N'Basic', N'ElasticPool') THEN 6
                       WHEN @tier = N'S0' THEN 15
                       WHEN @tier = N'S1' THEN 22
                       WHEN @tier = N'S2' THEN 30
                       -- a serverless vCore has 75 workers, any other has more
                       WHEN @tier LIKE N'%[_]1' THEN 18
                       WHEN @tier LIKE N'%[_]2' THEN 37
                       ELSE 50 END;
    -- These have less than one processor, or share it with other databases.
    SET @share_ms = CASE WHEN @places < 30 THEN 100 WHEN @places = 30 THEN 50 ELSE 16 END;
END;
ELSE
    -- Every login may read this setting. 0 means that SQL Server chooses 512 or more.
    SELECT @places = CAST(value_in_use AS int) / 4
    FROM sys.configurations
    WHERE name = N'max worker threads' AND CAST(value_in_use AS int) BETWEEN 1 AND 255;
SET @most_sessions = ISNULL(@most_sessions, @places);
IF @most_sessions < 1 OR @most_sessions > 1000
    EXEC [$(schema)].[refuse] N'most_sessions', @most_sessions, N'1 to 1000';

-- A place is an application lock of the session, so it is freed when the session ends. Each queue uses one half of the
-- places and starts at a random one. Which half depends on the queue and the schema (@@PROCID), so that queues leave
-- places to each other.
SET @own = (@most_sessions + 1) / 2;
SET @first = ABS(CHECKSUM(NEWID()) % @own);
WHILE @granted < 0 AND @tries < @own
BEGIN
    SET @slot = (@queue_id % @most_sessions * 13 + ABS(@@PROCID % @most_sessions)
        + (@first + @tries) % @own) % @most_sessions;
    SET @resource = CONCAT(N'readpast_wait_', @slot);
    EXEC @granted = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Session',
        @LockTimeout = 0;
    SET @tries = @tries + 1;
END;
IF @granted < 0
BEGIN
    EXEC [$(schema)].[look] @queue_id, @found OUTPUT;
    SELECT @found AS found, CAST(0 AS bit) AS waited;
    RETURN;
END;

BEGIN TRY
    SET @delay_ms = @share_ms;
    WHILE @tested < @most_sessions - 1 AND @delay_ms < @most_ms
    BEGIN
        SET @other = CONCAT(N'readpast_wait_', (@slot + @tested + 1) % @most_sessions);
        SELECT @tested = @tested + 1,
            @delay_ms = @delay_ms + CASE APPLOCK_TEST(N'public', @other, N'Exclusive', N'Session')
                WHEN 0 THEN @share_ms + 4 ELSE 0 END;  -- 4 ms for its other calls
    END;
    SET @delay_ms = CASE WHEN @delay_ms > @most_ms THEN @most_ms WHEN @delay_ms < @least_ms THEN @least_ms
        ELSE @delay_ms END;
    SET @delay_ms = CASE WHEN @delay_ms < 10 THEN 10 ELSE @delay_ms END;
    EXEC [$(schema)].[look] @queue_id, @found OUTPUT, @delay_ms, @most_ms, @wait_ms;
END TRY
BEGIN CATCH
    EXEC sys.sp_releaseapplock @Resource = @resource, @LockOwner = N'Session';
    THROW;
END CATCH;
EXEC sys.sp_releaseapplock @Resource = @resource, @LockOwner = N'Session';
SELECT @found AS found, CAST(1 AS bit) AS waited;
GO
