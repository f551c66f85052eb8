-- The table must be what it was when this script was made from it. Otherwise nothing is done: make the script again, where it is to run.
DECLARE @id int = OBJECT_ID(/*{table_object}*/, N'U'), @differs nvarchar(2000), @message nvarchar(2048);
IF @id IS NULL
    THROW 58003, N'there is no table /*{table_text}*/ in this database, or this login may not see it', 1;

DECLARE @was TABLE (line nvarchar(1000) NOT NULL);
DECLARE @keys TABLE (index_id int NOT NULL, ordinal int NOT NULL, name nvarchar(128) NOT NULL, direction nvarchar(5) NOT NULL);
DECLARE @usable TABLE (index_id int NOT NULL, name nvarchar(128) NOT NULL, is_unique bit NOT NULL, filter nvarchar(max) NULL);
-- may_be_new: whatever indexes there are besides those that the procedures need.
DECLARE @is_now TABLE (line nvarchar(1000) NOT NULL, may_be_new bit NOT NULL);

INSERT @was (line)
VALUES
        /*{table_lines}*/;
INSERT @usable (index_id, name, is_unique, filter)
SELECT i.index_id, CASE i.index_id WHEN 1 THEN N'clustered' ELSE i.name END, i.is_unique, i.filter_definition
FROM sys.indexes AS i
WHERE i.object_id = @id AND i.type IN (1, 2) AND i.is_disabled = 0 AND i.is_hypothetical = 0;
INSERT @keys (index_id, ordinal, name, direction)
SELECT ic.index_id, ic.key_ordinal, c.name, CASE ic.is_descending_key WHEN 1 THEN N' desc' ELSE N'' END
FROM sys.index_columns AS ic
INNER JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
WHERE ic.object_id = @id AND ic.key_ordinal > 0;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'column ', c.name, N' ', t.name, N' ', c.max_length, N' ', c.precision, N' ', c.scale, N' ' + c.collation_name,
              CASE c.is_nullable WHEN 1 THEN N' null' ELSE N' not null' END, CASE c.is_identity WHEN 1 THEN N' identity' ELSE N'' END,
              CASE c.is_computed WHEN 1 THEN N' computed' ELSE N'' END), 0
FROM sys.columns AS c
LEFT JOIN sys.types AS t ON t.user_type_id = c.system_type_id
WHERE c.object_id = @id;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'trigger ', g.name), 0 FROM sys.triggers AS g WHERE g.parent_id = @id AND g.is_disabled = 0;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'index ', u.name, N', key ', k.ordinal, N': ', k.name, k.direction), 1
FROM @usable AS u
INNER JOIN @keys AS k ON k.index_id = u.index_id;
INSERT @is_now (line, may_be_new)
SELECT CONCAT(N'index ', u.name, N' where ', u.filter), 1 FROM @usable AS u WHERE u.filter IS NOT NULL;
INSERT @is_now (line, may_be_new)
SELECT N'unique index on the key', 1
FROM @usable AS u
WHERE u.is_unique = 1 AND u.filter IS NULL
    AND NOT EXISTS (SELECT 1 FROM @keys AS k WHERE k.index_id = u.index_id AND k.name NOT IN (/*{key_literals}*/));

SELECT TOP (1) @differs = d.line
FROM (SELECT CONCAT(w.line, N' is not there') AS line FROM @was AS w WHERE NOT EXISTS (SELECT 1 FROM @is_now AS n WHERE n.line = w.line)
      UNION ALL
      SELECT CONCAT(n.line, N' is new') FROM @is_now AS n WHERE n.may_be_new = 0 AND NOT EXISTS (SELECT 1 FROM @was AS w WHERE w.line = n.line)) AS d
ORDER BY d.line DESC;
IF @differs IS NOT NULL
BEGIN
    SET @message = CONCAT(N'/*{table_text}*/ is not what this script was made from: ', @differs);
    THROW 58003, @message, 1;
END;
GO
