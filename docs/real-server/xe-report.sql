-- Stops the recording of xe-start.sql and says what it holds. Fails on any deadlock and on any lock escalation.
--
--     sqlcmd -b -C -I -W -s "|" -i docs/real-server/xe-report.sql -v application=readpast-kit run=1
--
-- What a test provokes is listed but does not fail the run: its sessions have an application name that begins with
-- '<application> provoked'. Needs VIEW SERVER STATE and ALTER ANY EVENT SESSION. May be run again; the files stay.
SET NOCOUNT ON;
SET QUOTED_IDENTIFIER ON;  -- the methods of xml demand it
GO

-- Lost events would make the report say less than there was.
SELECT CASE WHEN s.name IS NULL THEN 'not running: this is what was recorded before' ELSE 'running' END AS recording,
       s.dropped_event_count AS lost_events
FROM (SELECT 1 AS one) AS always
LEFT JOIN sys.dm_xe_sessions AS s ON s.name = N'readpast_kit';
-- Stopping writes what is still in memory.
IF EXISTS (SELECT 1 FROM sys.dm_xe_sessions WHERE name = N'readpast_kit')
    ALTER EVENT SESSION readpast_kit ON SERVER STATE = STOP;
GO

DECLARE @events TABLE (id int NOT NULL IDENTITY (1, 1) PRIMARY KEY, name nvarchar(256) NOT NULL, event xml NOT NULL);
INSERT @events (name, event)
SELECT object_name, CAST(event_data AS xml)
FROM sys.fn_xe_file_target_read_file(N'readpast_kit_$(run)*.xel', NULL, NULL, NULL);

-- Who took part in each deadlock. One of ours is enough; one that provokes is enough, too.
DECLARE @deadlocks TABLE (id int NOT NULL PRIMARY KEY, provoked bit NOT NULL);
INSERT @deadlocks (id, provoked)
SELECT e.id, MAX(CASE WHEN p.application LIKE N'$(application) provoked%' THEN 1 ELSE 0 END)
FROM @events AS e
CROSS APPLY e.event.nodes('/event/data[@name="xml_report"]/value/deadlock/process-list/process') AS n (process)
CROSS APPLY (SELECT n.process.value('@clientapp', 'nvarchar(256)') AS application) AS p
WHERE e.name = N'xml_deadlock_report'
GROUP BY e.id
HAVING MAX(CASE WHEN p.application LIKE N'$(application)%' THEN 1 ELSE 0 END) = 1;

DECLARE @escalations TABLE
(
    id          int            NOT NULL PRIMARY KEY,
    provoked    bit            NOT NULL,
    application nvarchar(256)  NULL,
    in_database nvarchar(128)  NULL,
    object_id   int            NULL,
    cause       nvarchar(128)  NULL,
    locks       int            NULL,
    statement   nvarchar(max)  NULL
);
INSERT @escalations (id, provoked, application, in_database, object_id, cause, locks, statement)
SELECT e.id, CASE WHEN v.application LIKE N'$(application) provoked%' THEN 1 ELSE 0 END, v.application, v.in_database, v.object_id, v.cause,
       v.locks, v.statement
FROM @events AS e
CROSS APPLY (SELECT e.event.value('(/event/action[@name="client_app_name"]/value)[1]', 'nvarchar(256)') AS application,
                    e.event.value('(/event/data[@name="database_name"]/value)[1]', 'nvarchar(128)') AS in_database,
                    e.event.value('(/event/data[@name="object_id"]/value)[1]', 'int') AS object_id,
                    e.event.value('(/event/data[@name="escalation_cause"]/text)[1]', 'nvarchar(128)') AS cause,
                    e.event.value('(/event/data[@name="escalated_lock_count"]/value)[1]', 'int') AS locks,
                    e.event.value('(/event/data[@name="statement"]/value)[1]', 'nvarchar(max)') AS statement) AS v
WHERE e.name = N'lock_escalation';

PRINT N'';
PRINT N'== deadlocks: who, and where each stood (the victim and the whole graph are in the file)';
SELECT d.id,
       d.provoked,
       n.process.value('@clientapp', 'nvarchar(256)') AS application,
       n.process.value('@currentdbname', 'nvarchar(128)') AS in_database,
       n.process.value('@waitresource', 'nvarchar(256)') AS waits_for,
       n.process.value('(executionStack/frame/@procname)[1]', 'nvarchar(256)') AS stands_in,
       LEFT(REPLACE(REPLACE(n.process.value('(executionStack/frame)[1]', 'nvarchar(max)'), NCHAR(13), N' '), NCHAR(10), N' '), 200)
           AS statement
FROM @deadlocks AS d
INNER JOIN @events AS e ON e.id = d.id
CROSS APPLY e.event.nodes('/event/data[@name="xml_report"]/value/deadlock/process-list/process') AS n (process)
ORDER BY d.id;

PRINT N'';
PRINT N'== deadlocks: the locks they were about';
SELECT d.id,
       n.resource.value('local-name(.)', 'nvarchar(64)') AS lock,
       n.resource.value('@objectname', 'nvarchar(400)') AS object,
       n.resource.value('@indexname', 'nvarchar(128)') AS in_index,
       n.resource.value('@mode', 'nvarchar(16)') AS mode
FROM @deadlocks AS d
INNER JOIN @events AS e ON e.id = d.id
CROSS APPLY e.event.nodes('/event/data[@name="xml_report"]/value/deadlock/resource-list/*') AS n (resource)
ORDER BY d.id;

PRINT N'';
PRINT N'== lock escalations (the object has no name any more once its test has removed it)';
SELECT provoked, application, in_database, OBJECT_NAME(object_id, DB_ID(in_database)) AS object, cause, locks,
       LEFT(REPLACE(REPLACE(statement, NCHAR(13), N' '), NCHAR(10), N' '), 200) AS statement
FROM @escalations
ORDER BY id;

PRINT N'';
PRINT N'== recompiled statements, by reason';
SELECT v.application, v.cause, COUNT(*) AS times
FROM @events AS e
CROSS APPLY (SELECT e.event.value('(/event/action[@name="client_app_name"]/value)[1]', 'nvarchar(256)') AS application,
                    e.event.value('(/event/data[@name="recompile_cause"]/text)[1]', 'nvarchar(128)') AS cause) AS v
WHERE e.name = N'sql_statement_recompile'
GROUP BY v.application, v.cause
ORDER BY v.application, times DESC;

PRINT N'';
PRINT N'== recompiled statements, the hundred most frequent';
SELECT TOP (100) COUNT(*) AS times, v.application, v.cause, v.object, v.statement
FROM @events AS e
CROSS APPLY (SELECT e.event.value('(/event/action[@name="client_app_name"]/value)[1]', 'nvarchar(256)') AS application,
                    e.event.value('(/event/data[@name="recompile_cause"]/text)[1]', 'nvarchar(128)') AS cause,
                    e.event.value('(/event/data[@name="object_name"]/value)[1]', 'nvarchar(128)') AS object,
                    LEFT(REPLACE(REPLACE(e.event.value('(/event/data[@name="statement"]/value)[1]', 'nvarchar(max)'), NCHAR(13), N' '),
                                 NCHAR(10), N' '), 120) AS statement) AS v
WHERE e.name = N'sql_statement_recompile'
GROUP BY v.application, v.cause, v.object, v.statement
ORDER BY times DESC;

DECLARE @deadlock_count int = (SELECT COUNT(*) FROM @deadlocks WHERE provoked = 0),
        @escalation_count int = (SELECT COUNT(*) FROM @escalations WHERE provoked = 0);
PRINT N'';
PRINT CONCAT(N'deadlocks: ', @deadlock_count, N', lock escalations: ', @escalation_count, N' (without what tests provoked)');
IF @deadlock_count > 0 OR @escalation_count > 0
    THROW 58902, N'there were deadlocks or lock escalations; see above', 1;
GO
