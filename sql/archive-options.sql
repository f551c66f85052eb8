-- For the DBA of a large archive: two ways to store the table "archive" otherwise. Not part of the installation, and not to be run as a whole: adapt
-- one part and run that part alone. readpast needs the table's columns, and its indexes under their names; where they lie is yours to choose, and
-- later installations leave it as it is.
--
--     Part 1  another filegroup, compressed
--     Part 2  partitioned by the time of the end: a month is thrown away at once, instead of row by row
--
-- The pages named below are Microsoft's documentation of Transact-SQL and of SQL Server.
-- With sqlcmd: -v schema=readpast filegroup=READPAST_ARCHIVE. In SSMS: Query, SQLCMD Mode.
SET NOEXEC ON;  -- whoever runs all of it changes nothing
GO

-- Part 1: another filegroup, compressed
--
-- The filegroup with its file comes first ("ALTER DATABASE File and Filegroup Options"). Azure SQL Database has PRIMARY only ("Partitioned tables and
-- indexes"): there leave the ON clauses out.
--
--     ALTER DATABASE CURRENT ADD FILEGROUP [READPAST_ARCHIVE];
--     ALTER DATABASE CURRENT ADD FILE (NAME = N'readpast_archive', FILENAME = N'E:\archive\readpast_archive.ndf', SIZE = 1GB, FILEGROWTH = 1GB)
--         TO FILEGROUP [READPAST_ARCHIVE];
--
-- An index behind a PRIMARY KEY constraint may be re-created by CREATE INDEX … DROP_EXISTING as long as its definition (its key) stays the same:
-- the constraint is kept. With another key the statement fails ("CREATE INDEX", "DROP_EXISTING clause"; "Move an existing index to a different
-- filegroup"). A clustered index takes the table's rows with it. The other indexes are neither moved nor compressed with it ("Data compression":
-- nonclustered indexes do not inherit the compression).
--
-- What stays where it was: values of payload and output that are stored off row, which is to say those that do not fit into a row of 8,060 bytes.
-- Their filegroup is chosen by CREATE TABLE … TEXTIMAGE_ON and cannot be changed afterwards ("CREATE TABLE"), and they are not compressed ("Data
-- compression"). If yours are large, run 030_archive.sql with "ON [READPAST_ARCHIVE] TEXTIMAGE_ON [READPAST_ARCHIVE]" behind its CREATE TABLE
-- before the first installation, or use part 2 (a partitioned table has no TEXTIMAGE_ON). The query below shows where they lie: LOB_DATA.
--
-- ONLINE = ON is for Enterprise, Developer and Azure ("Editions and supported features"); with OFF, finishing jobs of queues with the policy
-- "archive" waits until the index is made, because it holds a Sch-M lock on the table. So does ONLINE = ON for a moment at its end: behind one long
-- reader of the archive, the finishers would queue up. The options are those of 030_archive.sql: what is not given is reset.
SET LOCK_TIMEOUT 5000;
CREATE UNIQUE CLUSTERED INDEX archive_pk ON [$(schema)].[archive] (job_id)
    WITH (DROP_EXISTING = ON, DATA_COMPRESSION = PAGE, ONLINE = ON)
    ON [$(filegroup)];
CREATE NONCLUSTERED INDEX archive_finished ON [$(schema)].[archive] (queue_id, finished_at, job_id)
    WITH (DROP_EXISTING = ON, DATA_COMPRESSION = PAGE, ONLINE = ON)
    ON [$(filegroup)];
GO
-- Where it lies now, and how it is compressed.
SELECT i.name AS index_name, f.name AS filegroup_name, p.partition_number, p.data_compression_desc, p.rows, a.type_desc, a.total_pages
FROM sys.indexes AS i
INNER JOIN sys.partitions AS p ON p.object_id = i.object_id AND p.index_id = i.index_id
INNER JOIN sys.allocation_units AS a ON a.container_id = CASE WHEN a.type = 2 THEN p.partition_id ELSE p.hobt_id END
INNER JOIN sys.filegroups AS f ON f.data_space_id = a.data_space_id
WHERE i.object_id = OBJECT_ID(N'[$(schema)].[archive]')
ORDER BY i.index_id, p.partition_number, a.type;
GO

-- Part 2: partitioned by finished_at, a month each
--
-- A unique index can be partitioned only by a column of its key ("Partitioned tables and indexes"). So the primary key becomes (job_id, finished_at),
-- and the constraint must be dropped and made anew. What that means:
-- - That a job_id stands in the archive once is no longer checked by SQL Server. It still does: the numbers come from a sequence, and a job is
--   archived by the statement that deletes it from jobs.
-- - A seek by job_id alone looks into every partition: peek of one job, and one look for each job in the acknowledgement of a queue that archives.
--   With 14 partitions of a month that is 14 short seeks each; have a few dozen partitions at the most.
-- - The pages of peek @state = 'archived' are in the order of finished_at within a partition; look at their plan before you page through a large
--   archive.
-- - expire and purge go on to work, row by row. Instead, leave @keep_done_s at 0 (for ever) and throw away whole partitions, as below.
--
-- Dropping and making the key moves every row twice and locks the table meanwhile. Do it while the archive is small, and while no worker finishes
-- jobs (EXEC pause for the queues that archive, and wait until nothing is claimed).
--
-- An empty partition at either end, so that neither SPLIT nor MERGE ever moves a row ("ALTER PARTITION FUNCTION", "Best practices"). RIGHT: a
-- boundary belongs to the partition that begins with it.
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
-- 1. Throw away the oldest month: partition 2, because partition 1 is the empty one before it. TRUNCATE of partitions exists from SQL Server 2016 on
-- and
--    wants all indexes partitioned alike ("TRUNCATE TABLE"), which they are. It logs pages, not rows, and takes Sch-M on the table for a moment: with
--    LOCK_TIMEOUT it gives up behind a long reader instead of making the finishers wait; run it again then. (To keep the rows elsewhere, switch the
--    partition out instead: ALTER TABLE … SWITCH PARTITION 2 TO an empty table with the same columns, constraint and indexes on the same filegroup;
--    "ALTER TABLE".)
SET LOCK_TIMEOUT 5000;
TRUNCATE TABLE [$(schema)].[archive] WITH (PARTITIONS (2));
-- 2. Remove its boundary: the two empty partitions at the beginning become one.
ALTER PARTITION FUNCTION readpast_archive_months() MERGE RANGE ('2026-01-01');
-- 3. Add the month after the last, while the last partition is still empty.
ALTER PARTITION SCHEME readpast_archive_months NEXT USED [$(filegroup)];
ALTER PARTITION FUNCTION readpast_archive_months() SPLIT RANGE ('2026-05-01');
GO

SET NOEXEC OFF;
GO
