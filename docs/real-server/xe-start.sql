-- Starts to record what must not happen under readpast, deadlocks and lock escalations, and what should be rare, recompiled statements.
--
--     sqlcmd -b -C -I -i docs/real-server/xe-start.sql -v application=readpast-kit run=1
--
-- $(application): only sessions whose application name begins with it. $(run): any word; the files are readpast_kit_<run>_….xel in the
-- server's log folder. A new run takes a new word, because the report reads all files of its run. Needs ALTER ANY EVENT SESSION.
SET NOCOUNT ON;
GO

IF EXISTS (SELECT 1 FROM sys.server_event_sessions WHERE name = N'readpast_kit')
    DROP EVENT SESSION readpast_kit ON SERVER;
GO

-- A deadlock is reported by a session of the server's own, so that one is not filtered here; the report looks at who took part.
CREATE EVENT SESSION readpast_kit ON SERVER
ADD EVENT sqlserver.xml_deadlock_report,
ADD EVENT sqlserver.lock_escalation
(
    SET collect_database_name = 1, collect_statement = 1
    ACTION (sqlserver.client_app_name)
    WHERE sqlserver.like_i_sql_unicode_string(sqlserver.client_app_name, N'$(application)%')
),
ADD EVENT sqlserver.sql_statement_recompile
(
    SET collect_object_name = 1, collect_statement = 1
    ACTION (sqlserver.client_app_name)
    WHERE sqlserver.like_i_sql_unicode_string(sqlserver.client_app_name, N'$(application)%')
)
ADD TARGET package0.event_file (SET filename = N'readpast_kit_$(run).xel', max_file_size = 64, max_rollover_files = 4)
WITH (EVENT_RETENTION_MODE = ALLOW_SINGLE_EVENT_LOSS, MAX_DISPATCH_LATENCY = 1 SECONDS, STARTUP_STATE = OFF);
GO

ALTER EVENT SESSION readpast_kit ON SERVER STATE = START;
GO
