-- What a table is. Results: the database; the object; its columns; the columns of its indexes; its triggers, check constraints and foreign keys.
DECLARE @id int = OBJECT_ID(/*{table_literal}*/);

SELECT DB_NAME() AS database_name;

SELECT RTRIM(o.type) AS type, CASE WHEN ISNULL(o.principal_id, s.principal_id) = 1 THEN 1 ELSE 0 END AS is_owned_by_dbo,
       CASE WHEN IS_MEMBER(N'db_owner') = 1 THEN 1 ELSE 0 END AS may_install,
       CASE WHEN t.is_memory_optimized = 1 OR t.temporal_type <> 0 THEN 1 ELSE 0 END AS is_special
FROM sys.objects AS o
INNER JOIN sys.schemas AS s ON s.schema_id = o.schema_id
LEFT JOIN sys.tables AS t ON t.object_id = o.object_id
WHERE o.object_id = @id;

-- A type of somebody's own is the system's under it; a CLR type has none.
SELECT c.name, t.name AS type_name, CAST(c.max_length AS int) AS max_length, CAST(c.precision AS int) AS precision, CAST(c.scale AS int) AS scale,
       c.collation_name, CAST(c.is_nullable AS int) AS is_nullable, CAST(c.is_identity AS int) AS is_identity, CAST(c.is_computed AS int) AS is_computed,
       CASE WHEN c.default_object_id <> 0 THEN 1 ELSE 0 END AS has_default
FROM sys.columns AS c
LEFT JOIN sys.types AS t ON t.user_type_id = c.system_type_id
WHERE c.object_id = @id
ORDER BY c.column_id;

SELECT i.index_id, i.name, CAST(i.is_unique AS int) AS is_unique, i.filter_definition, c.name AS column_name, CAST(ic.key_ordinal AS int) AS key_ordinal,
       CAST(ic.is_descending_key AS int) AS is_descending, CAST(i.allow_row_locks AS int) AS allow_row_locks
FROM sys.indexes AS i
INNER JOIN sys.index_columns AS ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id
INNER JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
WHERE i.object_id = @id AND i.type IN (1, 2) AND i.is_disabled = 0 AND i.is_hypothetical = 0
ORDER BY i.index_id, CASE WHEN ic.key_ordinal = 0 THEN 1000 ELSE ic.key_ordinal END, ic.index_column_id;

SELECT N'trigger' AS kind, t.name FROM sys.triggers AS t WHERE t.parent_id = @id AND t.is_disabled = 0
UNION ALL
SELECT N'check constraint', k.name FROM sys.check_constraints AS k WHERE k.parent_object_id = @id AND k.is_disabled = 0
UNION ALL
SELECT N'foreign key', f.name FROM sys.foreign_keys AS f WHERE f.parent_object_id = @id OR f.referenced_object_id = @id
ORDER BY 1, 2;
