-- Lists what holds all queues of the schema. Reads by NOLOCK. Result: hold (schema: pause_all; copy: this database was
-- restored or copied and is not confirmed), since, login, why, and of a copy the last home: server, database_name.
CREATE OR ALTER PROCEDURE [$(schema)].[list_holds]
AS
SET NOCOUNT, XACT_ABORT ON;
SELECT CASE h.hold WHEN 2 THEN 'schema' ELSE 'copy' END AS hold, h.since, h.login, h.why,
       CASE WHEN h.hold = 4 THEN l.server END AS server, CASE WHEN h.hold = 4 THEN l.database_name END AS database_name
FROM [$(schema)].[holds] AS h WITH (NOLOCK)
OUTER APPLY (SELECT TOP (1) o.server, o.database_name FROM [$(schema)].[homes] AS o WITH (NOLOCK)
             ORDER BY o.home_id DESC) AS l
ORDER BY h.hold DESC
OPTION (MAXDOP 1);
GO
