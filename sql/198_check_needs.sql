-- Rejects needs that are not a JSON object of integers: of one job (@needs) or of all jobs of a list (@details).
-- memory: 1 to 1125899906842624 bytes (1 PiB); threads: 1 to 1024; any other name, a token: 1 to 1000000. A name has 1
-- to 64 printable ASCII characters, no spaces, and occurs once.
CREATE OR ALTER PROCEDURE [$(schema)].[check_needs]
    @needs   nvarchar(1001) = NULL,
    @details [$(schema)].[detail_list] READONLY
AS
SET NOCOUNT ON;  -- keeps the caller's XACT_ABORT, for @on_bad of enqueue
DECLARE @found bit = 0, @name nvarchar(64), @value nvarchar(1000), @type tinyint, @what nvarchar(100),
    @allowed nvarchar(400), @message nvarchar(2048);
DECLARE @all TABLE
(
    place int            NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    needs nvarchar(1001) COLLATE Latin1_General_100_BIN2 NOT NULL
);
DECLARE @members TABLE
(
    place int            NOT NULL,  -- of the object in @all
    name  nvarchar(4000) COLLATE Latin1_General_100_BIN2 NOT NULL,
    value nvarchar(1001) COLLATE Latin1_General_100_BIN2 NULL,
    type  tinyint        NOT NULL   -- as OPENJSON says: 2 is a number
);

-- Jobs of a list often have the same needs, which are checked once.
IF @needs IS NOT NULL
    INSERT @all (needs) VALUES (@needs);
INSERT @all (needs) SELECT DISTINCT needs FROM @details WHERE needs IS NOT NULL;

SELECT TOP (1) @found = 1, @value = LEFT(needs, 1000) FROM @all
    WHERE DATALENGTH(needs) > 2000 OR ISJSON(needs) = 0 OR needs NOT LIKE N'{%';
IF @found = 1
    EXEC [$(schema)].[refuse] N'needs', @value, N'a JSON object of up to 1000 characters, which begins with {';

INSERT @members (place, name, value, type)
SELECT a.place, m.[key], LEFT(m.[value], 1001), m.[type]
FROM @all AS a
CROSS APPLY OPENJSON(a.needs) AS m;

SELECT TOP (1) @found = 1, @value = LEFT(name, 1000) FROM @members
    WHERE DATALENGTH(name) NOT BETWEEN 2 AND 128 OR name LIKE N'%[^!-~]%';
IF @found = 1
    EXEC [$(schema)].[refuse] N'a name in needs', @value, N'1 to 64 printable ASCII characters, no spaces';

SELECT TOP (1) @name = name FROM @members GROUP BY place, name HAVING COUNT(*) > 1;
IF @name IS NOT NULL
BEGIN
    SET @message = CONCAT(N'the need of ''', @name, N''' is given twice; each name must occur once');
    EXEC [$(schema)].[raise] 58003, @message;
END;

-- CASE, because only a text of digits can be converted.
SELECT TOP (1) @name = name, @type = type, @value = LEFT(value, 1000) FROM @members
    WHERE CASE WHEN type <> 2 OR DATALENGTH(value) > 32 OR value NOT LIKE N'[1-9]%' OR value LIKE N'%[^0-9]%' THEN 1
               WHEN CAST(value AS bigint) > CASE name WHEN N'memory' THEN 1125899906842624 WHEN N'threads' THEN 1024
                                                      ELSE 1000000 END THEN 1
               ELSE 0 END = 1;
IF @name IS NOT NULL
BEGIN
    SET @what = CONCAT(N'the need of ''', @name, N'''');
    IF @type = 1
        SET @value = CONCAT(N'"', @value, N'"');
    SET @allowed = CASE @name COLLATE Latin1_General_100_BIN2
                              WHEN N'memory' THEN N'an integer from 1 to 1125899906842624 (bytes)'
                              WHEN N'threads' THEN N'an integer from 1 to 1024 (threads)'
                              ELSE N'an integer from 1 to 1000000 (tokens)' END;
    EXEC [$(schema)].[refuse] @what, @value, @allowed;
END;
GO
