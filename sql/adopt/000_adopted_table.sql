-- The table must be what it was when this script was made from it. Otherwise nothing is done: make the script again, where it is to run.
DECLARE @id int = OBJECT_ID(/*{table_object}*/, N'U'), @differs nvarchar(2000), @message nvarchar(2048);
IF @id IS NULL
    THROW 58003, N'there is no table /*{table_text}*/ in this database, or this login may not see it', 1;

WITH was (line) AS
(
    SELECT line
    FROM (VALUES
        /*{table_lines}*/) AS v (line)
),
usable (index_id, name, is_unique, filter) AS
(
    SELECT i.index_id, CASE i.index_id WHEN 1 THEN N'clustered' ELSE i.name END, i.is_unique, i.filter_definition
    FROM sys.indexes AS i
    WHERE i.object_id = @id AND i.type IN (1, 2) AND i.is_disabled = 0 AND i.is_hypothetical = 0
),
index_keys (index_id, ordinal, name, direction) AS
(
    SELECT ic.index_id, ic.key_ordinal, c.name, CASE ic.is_descending_key WHEN 1 THEN N' desc' ELSE N'' END
    FROM sys.index_columns AS ic
    INNER JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
    WHERE ic.object_id = @id AND ic.key_ordinal > 0
),
-- may_be_new: whatever indexes there are besides those that the procedures need.
is_now (line, may_be_new) AS
(
    SELECT CONCAT(N'column ', c.name, N' ', t.name, N' ', c.max_length, N' ', c.precision, N' ', c.scale, N' ' + c.collation_name,
                  CASE c.is_nullable WHEN 1 THEN N' null' ELSE N' not null' END, CASE c.is_identity WHEN 1 THEN N' identity' ELSE N'' END,
                  CASE c.is_computed WHEN 1 THEN N' computed' ELSE N'' END) COLLATE DATABASE_DEFAULT, 0
    FROM sys.columns AS c
    LEFT JOIN sys.types AS t ON t.user_type_id = c.system_type_id
    WHERE c.object_id = @id
    UNION ALL
    SELECT CONCAT(N'trigger ', g.name) COLLATE DATABASE_DEFAULT, 0 FROM sys.triggers AS g WHERE g.parent_id = @id AND g.is_disabled = 0
    UNION ALL
    SELECT CONCAT(N'index ', u.name, N', key ', k.ordinal, N': ', k.name, k.direction) COLLATE DATABASE_DEFAULT, 1
    FROM usable AS u
    INNER JOIN index_keys AS k ON k.index_id = u.index_id
    UNION ALL
    SELECT CONCAT(N'index ', u.name, N' where ', u.filter) COLLATE DATABASE_DEFAULT, 1 FROM usable AS u WHERE u.filter IS NOT NULL
    UNION ALL
    SELECT N'unique index on the key', 1
    FROM usable AS u
    WHERE u.is_unique = 1 AND u.filter IS NULL
        AND NOT EXISTS (SELECT 1 FROM index_keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (/*{key_literals}*/))
)
SELECT TOP (1) @differs = d.line
FROM (SELECT CONCAT(was.line, N' is not there') AS line FROM was WHERE NOT EXISTS (SELECT 1 FROM is_now AS n WHERE n.line = was.line)
      UNION ALL
      SELECT CONCAT(n.line, N' is new') FROM is_now AS n WHERE n.may_be_new = 0 AND NOT EXISTS (SELECT 1 FROM was WHERE was.line = n.line)) AS d
ORDER BY d.line DESC;
IF @differs IS NOT NULL
BEGIN
    SET @message = CONCAT(N'/*{table_text}*/ is not what this script was made from: ', @differs);
    THROW 58003, @message, 1;
END;
GO
