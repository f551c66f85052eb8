-- Gives back to /*{table}*/ what is held, and removes the adoption with its schema. Stop its workers first.
SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;
SET NOCOUNT ON;
SET XACT_ABORT ON;
IF EXISTS (SELECT 1 FROM [$(schema)].[workers] WHERE lost_at IS NULL AND lease_until >= SYSUTCDATETIME())
    THROW 58003, N'workers of /*{table_text}*/ are running; stop them first', 1;
/*{dead_rows}*/BEGIN TRANSACTION;
/*{give_back}*/
-- Nothing is held from here on.
DELETE [$(schema)].[jobs];
COMMIT TRANSACTION;
DROP TABLE [$(schema)].[adoption];
GO
