-- For the DBA of a large archive: two ways to store the table "archive" elsewhere. This script is not part of the
-- installation. Adapt one part and run it alone. readpast needs the table's columns, and its indexes under their names.
-- Later installations do not move them.
--
--     Part 1  another filegroup, compressed
--     Part 2  partitioned by the time of the end, so that a month can be deleted at once
--
-- Pages in quotes are Microsoft's documentation of Transact-SQL and SQL Server.
-- With sqlcmd: -v schema=readpast filegroup=READPAST_ARCHIVE. In SSMS: Query, SQLCMD Mode.
SET NOEXEC ON;  -- so that running the whole script changes nothing
GO

-- Part 1: another filegroup, compressed
--
-- First create the filegroup with its file ("ALTER DATABASE File and Filegroup Options"). Azure SQL Database has only
-- the filegroup PRIMARY ("Partitioned tables and indexes"), so leave out the ON clauses there.
--
--     ALTER DATABASE CURRENT ADD FILEGROUP [READPAST_ARCHIVE];
--     ALTER DATABASE CURRENT ADD FILE (NAME = N'readpast_archive', FILENAME = N'E:\archive\readpast_archive.ndf',
--         SIZE = 1GB, FILEGROWTH = 1GB) TO FILEGROUP [READPAST_ARCHIVE];
--
-- CREATE INDEX ... DROP_EXISTING re-creates the index of a PRIMARY KEY constraint as long as its key is unchanged
-- ("CREATE INDEX", "DROP_EXISTING clause"; "Move an existing index to a different filegroup"). A clustered index takes
-- the table's rows with it, but the other indexes are neither moved nor compressed ("Data compression").
--
-- Values of payload and output that do not fit into a row of 8,060 bytes are not moved: CREATE TABLE ... TEXTIMAGE_ON
-- chooses their filegroup for good ("CREATE TABLE"). They are not compressed either ("Data compression"). If your
-- values are large, add "ON [READPAST_ARCHIVE] TEXTIMAGE_ON [READPAST_ARCHIVE]" to CREATE TABLE in 030_archive.sql
-- before the first installation, or use part 2 (a partitioned table has no TEXTIMAGE_ON). The query below shows these
-- values as LOB_DATA.
--
-- ONLINE = ON requires Enterprise, Developer or Azure ("Editions and supported features"). With OFF, a Sch-M lock
-- blocks finish calls of queues with the policy archive until the index is built. With ON, the lock is held only for a
-- moment at the end, but if it has to wait for a long reader, finish calls queue up behind it. The options are those of
-- 030_archive.sql, because options that are left out would be reset.
SET LOCK_TIMEOUT 5000;
CREATE UNIQUE CLUSTERED INDEX archive_pk ON [$(schema)].[archive] (job_id)
    WITH (DROP_EXISTING = ON, DATA_COMPRESSION = PAGE, ONLINE = ON)
    ON [$(filegroup)];
CREATE NONCLUSTERED INDEX archive_finished ON [$(schema)].[archive] (queue_id, finished_at, job_id)
    WITH (DROP_EXISTING = ON, DATA_COMPRESSION = PAGE, ONLINE = ON)
    ON [$(filegroup)];
GO
-- The current filegroups and compression.
SELECT i.name AS index_name, f.name AS filegroup_name, p.partition_number, p.data_compression_desc, p.rows, a.type_desc,
       a.total_pages
FROM sys.indexes AS i
INNER JOIN sys.partitions AS p ON p.object_id = i.object_id AND p.index_id = i.index_id
INNER JOIN sys.allocation_units AS a ON a.container_id = CASE WHEN a.type = 2 THEN p.partition_id ELSE p.hobt_id END
INNER JOIN sys.filegroups AS f ON f.data_space_id = a.data_space_id
WHERE i.object_id = OBJECT_ID(N'[$(schema)].[archive]')
ORDER BY i.index_id, p.partition_number, a.type;
GO

-- Part 2: partitioned by finished_at, a month each
--
-- A unique index can be partitioned only by a column of its key ("Partitioned tables and indexes"). The primary key
-- therefore becomes (job_id, finished_at), and the constraint must be dropped and created again. Consequences:
-- - SQL Server no longer checks that a job_id is unique in the archive. It still is unique: the ids come from a
--   sequence, and the statement that archives a job deletes it from jobs.
-- - A seek by job_id reads every partition. This concerns peek of one job, and each job that is finished in a queue
--   that archives. 14 monthly partitions are 14 short seeks; use at most a few dozen.
-- - Pages of peek @state = 'archived' are in the order of finished_at within a partition; check their plan before you
--   page through a large archive.
-- - expire and purge still work row by row. Leave @keep_done_s at 0 (for ever) and delete partitions as below.
--
-- Re-creating the key moves every row twice under a lock on the table. Do it while the archive is small and no worker
-- finishes jobs (EXEC pause for the queues that archive, and wait until nothing is claimed).
--
-- The partitions at both ends are empty, so that SPLIT and MERGE never move rows ("ALTER PARTITION FUNCTION", "Best
-- practices"). RIGHT means that a boundary belongs to the partition that it begins.
CREATE PARTITION FUNCTION readpast_archive_months (datetime2(3))
    AS RANGE RIGHT FOR VALUES ('2026-01-01', '2026-02-01', '2026-03-01', '2026-04-01');
CREATE PARTITION SCHEME readpast_archive_months
    AS PARTITION readpast_archive_months ALL TO ([$(filegroup)]);
GO
SET LOCK_TIMEOUT 5000;
SET XACT_ABORT ON;
BEGIN TRANSACTION;
DROP INDEX archive_finished ON [$(schema)].[archive];
ALTER TABLE [$(schema)].[archive] DROP CONSTRAINT archive_pk;
ALTER TABLE [$(schema)].[archive] ADD CONSTRAINT archive_pk PRIMARY KEY CLUSTERED (job_id, finished_at)
    WITH (DATA_COMPRESSION = PAGE)
    ON readpast_archive_months (finished_at);
CREATE NONCLUSTERED INDEX archive_finished ON [$(schema)].[archive] (queue_id, finished_at, job_id)
    WITH (DATA_COMPRESSION = PAGE)
    ON readpast_archive_months (finished_at);
COMMIT TRANSACTION;
GO

-- Each month, from a job of SQL Server Agent or an elastic job.
--
-- 1. Delete the oldest month: partition 2, because partition 1 is the empty one before it. TRUNCATE of partitions needs
--    SQL Server 2016 and aligned indexes ("TRUNCATE TABLE"), as here. It logs pages instead of rows, and takes a Sch-M
--    lock for a moment. If it has to wait for a long reader, LOCK_TIMEOUT makes it give up instead of blocking finish
--    calls; then run it again. To keep the rows elsewhere, use ALTER TABLE ... SWITCH PARTITION 2 TO an empty table
--    with the same columns, constraint and indexes on the same filegroup ("ALTER TABLE").
SET LOCK_TIMEOUT 5000;
TRUNCATE TABLE [$(schema)].[archive] WITH (PARTITIONS (2));
-- 2. Remove its boundary, which merges the two empty partitions at the start.
ALTER PARTITION FUNCTION readpast_archive_months() MERGE RANGE ('2026-01-01');
-- 3. Add the month after the last one, while the last partition is still empty.
ALTER PARTITION SCHEME readpast_archive_months NEXT USED [$(filegroup)];
ALTER PARTITION FUNCTION readpast_archive_months() SPLIT RANGE ('2026-05-01');
GO

SET NOEXEC OFF;
GO
