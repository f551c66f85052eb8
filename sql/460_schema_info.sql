-- Returns what a client must know before it starts. A client of version v works if min_compatible <= v <= version.
-- Result: version, min_compatible, database_name, read_only, read_committed_snapshot (NULL if invisible to the login),
-- wrong_set_options (empty if all is well), queue_exists (NULL without @queue), roles (whose procedures the login may
-- run, separated by spaces), server_version, compatibility_level (at least 130; NULL if invisible), held (what holds all
-- queues: schema, copy; see list_holds). Later versions add columns at the end.
CREATE OR ALTER PROCEDURE [$(schema)].[schema_info]
    @queue nvarchar(129) = NULL
AS
SET NOCOUNT ON;
DECLARE @version int, @min_compatible int;

SELECT TOP (1) @version = version, @min_compatible = min_compatible FROM [$(schema)].[schema_version]
    ORDER BY version DESC;

-- The session's options; QUOTED_IDENTIFIER and ANSI_NULLS are those of the installation.
SELECT @version AS version, @min_compatible AS min_compatible, DB_NAME() AS database_name,
       CAST(CASE WHEN DATABASEPROPERTYEX(DB_NAME(), 'Updateability') = 'READ_ONLY' THEN 1 ELSE 0 END AS bit)
           AS read_only,
       d.is_read_committed_snapshot_on AS read_committed_snapshot,
       CONCAT(CASE WHEN SESSIONPROPERTY('ANSI_PADDING') = 0 THEN 'ANSI_PADDING OFF ' END,
              CASE WHEN SESSIONPROPERTY('ANSI_WARNINGS') = 0 THEN 'ANSI_WARNINGS OFF ' END,
              CASE WHEN SESSIONPROPERTY('ARITHABORT') = 0 AND SESSIONPROPERTY('ANSI_WARNINGS') = 0
                  THEN 'ARITHABORT OFF ' END,
              CASE WHEN SESSIONPROPERTY('CONCAT_NULL_YIELDS_NULL') = 0 THEN 'CONCAT_NULL_YIELDS_NULL OFF ' END,
              CASE WHEN SESSIONPROPERTY('NUMERIC_ROUNDABORT') = 1 THEN 'NUMERIC_ROUNDABORT ON ' END)
           AS wrong_set_options,
       CAST(CASE WHEN @queue IS NULL THEN NULL
                 WHEN EXISTS (SELECT 1 FROM [$(schema)].[queues] AS q WITH (FORCESEEK (queues_name (name)))
                     WHERE q.name = @queue) THEN 1
                 ELSE 0 END AS bit) AS queue_exists,
       -- Checks one procedure of each role, because a login may have the permission without being a member.
       CONCAT(CASE WHEN HAS_PERMS_BY_NAME(N'[$(schema)].[enqueue]', N'OBJECT', N'EXECUTE') = 1 THEN N'producer ' END,
              CASE WHEN HAS_PERMS_BY_NAME(N'[$(schema)].[claim]', N'OBJECT', N'EXECUTE') = 1 THEN N'worker ' END,
              CASE WHEN HAS_PERMS_BY_NAME(N'[$(schema)].[purge]', N'OBJECT', N'EXECUTE') = 1 THEN N'operator ' END,
              CASE WHEN HAS_PERMS_BY_NAME(N'[$(schema)].[peek]', N'OBJECT', N'EXECUTE') = 1 THEN N'monitor ' END,
              CASE WHEN HAS_PERMS_BY_NAME(N'[$(schema)].[backlog]', N'OBJECT', N'EXECUTE') = 1 THEN N'autoscaler ' END)
           AS roles,
       CAST(SERVERPROPERTY(N'ProductVersion') AS nvarchar(128)) AS server_version,
       CAST(d.compatibility_level AS int) AS compatibility_level,
       (SELECT CASE MAX(h.hold) WHEN 4 THEN 'copy' WHEN 2 THEN 'schema' END
        FROM [$(schema)].[holds] AS h WITH (NOLOCK)) AS held
-- By name: in Azure SQL Database the ids in sys.databases differ from DB_ID. The outer join returns a row even if the
-- login does not see the database.
FROM (SELECT DB_NAME() AS name) AS here
LEFT JOIN sys.databases AS d ON d.name = here.name;
GO
