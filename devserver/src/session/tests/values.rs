//! Values: their types, conversions, operators and functions. The examples are those of the pages of the types and
//! functions in docs/t-sql/data-types/ and docs/t-sql/functions/ (MicrosoftDocs/sql-docs).

use crate::session::tests::harness::check;

#[test]
fn values_convert() {
    check(
        r#"== texts become numbers
         SELECT CAST('' AS int), CAST(' -12 ' AS int), CAST('+5' AS bigint) => 0, -12, BigInt(5)
         SELECT CAST('abc' AS int)
             => error 245 Conversion failed when converting the varchar value 'abc' to data type int.
         SELECT CAST('1.5' AS int)
             => error 245 Conversion failed when converting the varchar value '1.5' to data type int.
         SELECT CAST('abc' AS bigint) => error 8114 Error converting data type varchar to bigint.
         SELECT CAST('9999999999' AS int) ;; SELECT CAST('256' AS tinyint) ;; SELECT CAST('yes' AS bit) ;;
             SELECT CAST('1' AS decimal(5, 2)) => error 59000
         == numbers are cut or rounded by type
         -- "Truncating and rounding results" in docs/t-sql/functions/cast-and-convert-transact-sql.md
         SELECT CAST(10.6496 AS int), CAST(CAST(10.6496 AS decimal(18, 0)) AS varchar(9)) => 10, '11'
         SELECT CAST(CAST(1.555 AS decimal(3, 2)) AS varchar(9)), CAST(CAST(-1.555 AS decimal(3, 2)) AS varchar(9)),
             CAST(CAST(0.004 AS decimal(3, 2)) AS varchar(9)) => '1.56', '-1.56', '0.00'
         SELECT CAST(9.995 AS decimal(3, 2)) => error 8115
         == number overflow names the types
         SELECT CAST(40000 AS smallint) => error 220
         SELECT CAST(CAST(1099511627776 AS bigint) AS int) ;; SELECT CAST(1000 AS decimal(3, 0)) => error 8115
         SELECT CAST(-1 AS tinyint) => error 220
         SELECT CAST(CAST(3000000000. AS float) AS int) => error 59000
         == text is cut and filled up by cast
         SELECT CAST('abcdef' AS varchar(3)), CAST('ab' AS char(4)), CAST(N'日本' AS varchar(10)) => 'abc', 'ab  ', '??'
         SELECT CAST(123 AS varchar(2)) => error 59000
         SELECT CAST(CAST(N'a😀' AS nvarchar(2)) AS varbinary(9)) => Bytes([97, 0, 61, 216])
         == a column takes no text that is too long
         CREATE TABLE t (c varchar(3), b varbinary(2)); INSERT t (c) VALUES ('abc   ') => ok
         INSERT t (c) VALUES ('abcdef')
             => error 2628 truncated in table 'readpast.dbo.t', column 'c'. Truncated value: 'abc'.
         INSERT t (b) VALUES (0x010203) => error 2628 Truncated value: '0x0102'.
         == conversions that do not exist
         DECLARE @v varbinary(max) = 'a'
             => error 257 Implicit conversion from data type varchar to varbinary is not allowed. Use the CONVERT
         SELECT CAST(CAST('20200101' AS datetime) AS int) => error 59000
         SELECT CAST(NEWID() AS int) ;; SELECT CAST(CAST('20200101' AS date) AS int) => error 529
         == bytes and text
         -- "Binary styles" and the example "Using CONVERT with binary and character data"
         SELECT CONVERT(char(8), 0x4E616D65, 0), CONVERT(varchar(20), 0x4E616D65, 1), CONVERT(varchar(20), 0x4E616D65,
             2)
             => 'Name    ', '0x4E616D65', '4E616D65'
         SELECT CONVERT(binary(4), '4E', 2) => error 59000
         SELECT CAST(N'A' AS varbinary(30)), CAST(258 AS varbinary(2)), CAST(0x0102 AS int),
             CAST(0xFFFFFFFFFFFFFFFF AS bigint) => Bytes([65, 0]), Bytes([1, 2]), 258, BigInt(-1)
         == dates and times convert
         SELECT CAST(CAST('2007-05-08 12:35:29.1234567' AS time(7)) AS varchar(40)) => '12:35:29.1234567'
         SELECT CAST(CAST('2007-05-08 12:35:29.1234567' AS date) AS varchar(40)) => '2007-05-08'
         SELECT CAST(CAST('2007-05-08 12:35:29.1234567' AS datetime2(7)) AS varchar(40))
             => '2007-05-08 12:35:29.1234567'
         SELECT CAST(CAST('2007-05-08 12:35:29.1234567' AS datetimeoffset) AS varchar(40))
             => '2007-05-08 12:35:29.1234567 +00:00'
         SELECT CAST(CAST('2007-05-08 12:35:29.96' AS datetime2(1)) AS varchar(40)) => '2007-05-08 12:35:30.0'
         SELECT CAST(CAST('2007-12-31 23:59:59.99' AS datetime2(0)) AS varchar(40)) => '2008-01-01 00:00:00'
         SELECT CAST(CAST(CAST('2016-10-23 12:45:37.333' AS datetime) AS datetime2) AS varchar(40))
             => '2016-10-23 12:45:37.3333333'
         SELECT CAST('2023-02-30' AS datetime) ;; SELECT CAST('1752-12-31' AS datetime) => error 242
         SELECT CAST('2023-02-30' AS datetime2) ;; SELECT CAST('2023-02-03 10:00:00.1234' AS datetime) => error 241
         SELECT CONVERT(varchar(40), CAST(1.5 AS datetime), 121), CONVERT(varchar(40), CAST(-1 AS datetime), 121)
             => '1900-01-02 12:00:00.000', '1899-12-31 00:00:00.000'
         == texts are read as dates
         -- docs/t-sql/data-types/datetime-transact-sql.md, "Supported string literal formats"
         SELECT CAST(CAST('2004-05-23T14:25:10.487' AS datetime2) AS varchar(40)) => '2004-05-23 14:25:10.4870000'
         SELECT CAST(CAST('2004-05-23 14:25' AS datetime2(0)) AS varchar(40)) => '2004-05-23 14:25:00'
         SELECT CAST(CAST('20040523' AS datetime2(0)) AS varchar(40)) => '2004-05-23 00:00:00'
         SELECT CAST(CAST('1996/4/15 16:00' AS datetime2(0)) AS varchar(40)) => '1996-04-15 16:00:00'
         SELECT CAST(CAST('14:30:20.9' AS datetime2(1)) AS varchar(40)) => '1900-01-01 14:30:20.9'
         SELECT CAST(CAST('' AS datetime2(0)) AS varchar(40)) => '1900-01-01 00:00:00'
         SELECT CAST('tomorrow' AS datetime2) ;; SELECT CAST('2004-05-23X14:25:00' AS datetime2) ;;
             SELECT CAST('04/15/1996' AS datetime2) ;; SELECT CAST('4 PM' AS datetime2) ;;
             SELECT CAST('2004-05-23T14:25' AS datetime2) ;;
             SELECT CAST('2024-02-29T00:00:00Z' AS datetime2) => error 59000
         SELECT CAST('20231301' AS datetime2) ;; SELECT CAST('25:00' AS datetime2) => error 241
         == styles are written
         -- docs/t-sql/functions/cast-and-convert-transact-sql.md, "Date and time styles"
         DECLARE @d datetime = '2006-04-05 16:07:09.997';
             SELECT CONVERT(varchar(40), @d, 120), CONVERT(varchar(40), @d, 121), CONVERT(varchar(40), @d, 126)
             => '2006-04-05 16:07:09', '2006-04-05 16:07:09.997', '2006-04-05T16:07:09.997'
         SELECT CONVERT(varchar(40), CAST('20060405' AS datetime), 126) => '2006-04-05T00:00:00'
         SELECT CAST(GETDATE() AS varchar(40)) => error 59000
         == uniqueidentifiers convert
         -- docs/t-sql/data-types/uniqueidentifier-transact-sql.md
         SELECT CAST(CAST('0E984725-C51C-4BF4-9960-E1C80E27ABA0wrong' AS uniqueidentifier) AS char(36)),
             CAST(CAST('{0E984725-C51C-4BF4-9960-E1C80E27ABA0}' AS uniqueidentifier) AS char(36))
             => '0E984725-C51C-4BF4-9960-E1C80E27ABA0', '0E984725-C51C-4BF4-9960-E1C80E27ABA0'
         SELECT CAST('nonsense' AS uniqueidentifier) => error 8169
         SELECT CAST(NEWID() AS varchar(10)) => error 59000
         DECLARE @u uniqueidentifier = '0E984725-C51C-4BF4-9960-E1C80E27ABA0';
             SELECT CONVERT(varchar(40), CAST(@u AS binary(16)), 1) => '0x2547980E1CC5F44B9960E1C80E27ABA0'
         == floats print with all digits
         -- "Always 17 digits. Use for lossless conversion."
         SELECT CONVERT(varchar(30), CAST(0.1 AS float), 3) => '1.0000000000000001e-001'
         SELECT CAST(CAST(0.1 AS float) AS varchar(30)) => error 59000"#,
    );
}

#[test]
fn operators_compute() {
    check(
        r#"== integers stay integers
         SELECT 7 / 2, 7 % 4, -CAST(3 AS tinyint) => 3, 3, SmallInt(-3)
         SELECT 2147483647 + 1 => error 8115
         SELECT 1 / 0 => error 8134
         DECLARE @i int = -2147483648; SELECT -@i => error 8115
         == text is concatenated and null wins
         SELECT 'ab' + N'日' AS c, N'ab' + NULL AS n
             => tokens COLMETADATA(c NVarChar(Limit(3)), n NVarChar(Limit(4))) | ROW('ab日', NULL) | DONE(count=1)
         SELECT '40' + 2 => 42
         SELECT 'x' + 2 => error 245
         == operands that do not go together
         SELECT CAST(1 AS bit) + CAST(1 AS bit) ;; SELECT 'a' - 'b' ;; SELECT 'a' + 0x01 ;;
             SELECT CAST('20200101' AS datetime2) + 1 ;; SELECT NEWID() + NEWID() ;;
             SELECT CAST(1 AS float) % 2 => error 59000
         SELECT CAST(1.5 AS decimal(9, 2)) * 2 => error 59000 the operator '*' on
         SELECT 1 & 0x01 ;; SELECT -'a' => error 59000
         == days are added to a datetime
         SELECT CONVERT(varchar(40), CAST('19000101' AS datetime) + 2, 121) => '1900-01-03 00:00:00.000'
         == types meet in the one of higher precedence
         -- docs/t-sql/data-types/data-type-precedence-transact-sql.md
         SELECT COALESCE(1, CAST(2 AS bigint)) AS a, COALESCE(1, N'2') AS b,
             COALESCE('a', CAST('b' AS nvarchar(5))) AS c, COALESCE(CAST('abc' AS char(3)), '12') AS d
             => tokens COLMETADATA(a BigInt, b Int, c NVarChar(Limit(5)), d VarChar(Limit(3)))
             | ROW(BigInt(1), 1, 'a', 'abc') | DONE(count=1)
         SELECT COALESCE(CAST('20200101' AS datetime2(0)), CAST('20200101' AS datetime)) AS a,
             COALESCE(CAST('20200101' AS date), '20200101') AS b, COALESCE(0x01, CAST(2 AS bigint)) AS c WHERE 1 = 0
             => tokens COLMETADATA(a DateTime2(3), b Date, c BigInt) | DONE(count=0)
         SELECT CAST(COALESCE(1, CAST(2 AS decimal(5, 2))) AS varchar(9)),
             CAST(COALESCE(CAST(1.5 AS decimal(38, 10)), CAST(1 AS decimal(38))) AS varchar(9)) => '1.00', '2'
         SELECT COALESCE(1, NEWID()) => error 206 Operand type clash: uniqueidentifier is incompatible with int
         SELECT COALESCE(CAST('20200101' AS date), 1) => error 206
         SELECT 1 WHERE CAST(1.0000000001 AS decimal(38, 10)) = CAST(1 AS decimal(38, 0)) => none"#,
    );
}

#[test]
fn functions_give_values() {
    check(
        r#"== lengths
         SELECT LEN('abc  '), LEN(N'😀'), LEN(12345), LEN(NULL), LEN(CAST('ab' AS varchar(max)))
             => 3, 2, 5, NULL, BigInt(2)
         SELECT DATALENGTH('abc  '), DATALENGTH(N'abc'), DATALENGTH(1) => 5, 6, 4
         SELECT LEN('a', 'b') => error 59000
         == parts of text
         SELECT LEFT('abcdefg', 2), SUBSTRING('abcdef', 2, 3), SUBSTRING('abcdef', -1, 3), SUBSTRING('abc', 9, 3)
             => 'ab', 'bcd', 'a', ''
         SELECT LEFT('ab', -1) ;; SELECT SUBSTRING('abc', 1, -1) => error 59000
         SELECT SUBSTRING(5, 1, 1) => error 8116
         SELECT STUFF('abcdef', 2, 3, 'ijklmn'), STUFF('abc', 2, 1, NULL), STUFF('abc', 0, 1, 'x')
             => 'aijklmnef', 'ac', NULL
         SELECT REPLICATE('0', 4), REPLICATE('0', -1), LEN(REPLICATE(N'ab', 5000)) => '0000', NULL, 4000
         SELECT REPLACE('abcdefghicde', 'CDE', 'xxx'), REPLACE('a', '', 'x') => 'abxxxfghixxx', 'a'
         == joined text
         SELECT CONCAT('Happy ', 'Birthday ', 11, '/', '25'), CONCAT('Name', NULL, 'Lastname')
             => 'Happy Birthday 11/25', 'NameLastname'
         SELECT CONCAT('x') => error 59000
         == characters and quotes
         SELECT NCHAR(8364), QUOTENAME('abc[]def'), QUOTENAME('it''s', '''') => '€', '[abc[]]def]', ''it''s''
         SELECT QUOTENAME('a', 'x') => error 59000
         SELECT STRING_ESCAPE(N'a"/' + NCHAR(10) + NCHAR(1), 'json') => 'a\"\/\n\u0001'
         == places of text
         SELECT CHARINDEX('bicycle', 'Reflectors are vital safety components of your bicycle.'),
             CHARINDEX('VITAL', 'Reflectors are vital safety', 5), CHARINDEX('bike', 'bicycle'), CHARINDEX('r',
             'Reflectors', -3)
             => 48, 16, 0, 1
         SELECT PATINDEX('%ter%', 'interesting data'), PATINDEX('%en_ure%', 'Please ensure the door is locked!'),
             PATINDEX('%[^ 0-9A-z]%', 'Please ensure the door is locked!'), PATINDEX('ter%', 'interesting')
             => 3, 8, 33, 0
         == like
         -- The tables and examples of docs/t-sql/language-elements/like-transact-sql.md
         SELECT 1 WHERE 'Dean' LIKE '_ean' AND 'Larsen' LIKE '[C-P]arsen' AND 'deal' LIKE 'de[^l]%' AND '5%' LIKE '5[%]'
             AND '_n' LIKE '[_]n' AND 'd' LIKE '[a-cdf]' AND '-' LIKE '[-acdf]' AND ']' LIKE ']' AND 'abce' LIKE
             'abc[def]'
             AND '' LIKE '%' AND 'abcabd' LIKE '%abd' AND 'any COMPUTER book' LIKE '%computer%' => 1
         SELECT 1 WHERE N'5 percent' LIKE N'5[%]' OR N'e' LIKE N'[a-cdf]' OR N'del' LIKE N'de[^l]' OR N'abc' LIKE
             N'abc '
             OR N'abc ' LIKE N'abc' OR N'ab' LIKE N'_' OR 'ab' LIKE 'A%' COLLATE Latin1_General_BIN2 => none
         SELECT 1 WHERE 'Robert King    ' LIKE '% King' AND NOT N'Robert King    ' LIKE N'% King' => 1
         == numbers
         SELECT ABS(-7), CEILING(CAST(-123.45 AS float)), POWER(CAST(2.5 AS float), 3)
             => 7, Float(-123.0), Float(15.625)
         DECLARE @i int = -2147483648; SELECT ABS(@i) => error 8115
         SELECT ABS(CAST(1 AS bit)) => error 59000
         SELECT POWER(CAST(10 AS float), 400) => error 8115
         SELECT POWER(2, 3) => error 59000
         == texts that are no json
         SELECT ISJSON(N'{}'), ISJSON(N'[1]'), ISJSON(N' [] '), ISJSON(N'1'), ISJSON(N'{"a":01}'), ISJSON(N'{"a":1,}'),
             ISJSON(N'') => 1, 1, 1, 0, 0, 0, 0
         SELECT [key] FROM OPENJSON(N'{''a'':1}') => error 13609
         == escapes and exact numbers
         SELECT [key],
             value FROM OPENJSON(N'{"k\u0065y": "a\"\u20AC\ud83d\ude00", "n": 1.50e+03, "t": true, "z": null}')
             => 'key', 'a"€😀' | 'n', '1.50e+03' | 't', 'true' | 'z', NULL
         SELECT value FROM OPENJSON(N'{"o": [1, 2]}') => '[1, 2]'
         == hashes
         -- The test vectors of RFC 1321.
         SELECT CONVERT(varchar(40), HASHBYTES('md5', 'abc'), 1) => '0x900150983CD24FB0D6963F7D28E17F72'
         SELECT 1 WHERE HASHBYTES('md5', 'abc') = HASHBYTES('md5', N'abc') => none
         SELECT HASHBYTES('SHA1', 'a') => error 59000
         SELECT HASHBYTES('MD5', 1) => error 8116
         == a replacement takes the type of what it replaces
         DECLARE @v varchar(2); SELECT ISNULL(@v, 'abc'), ISNULL(1, 2) => 'ab', 1
         == messages are formatted
         -- docs/t-sql/functions/formatmessage-transact-sql.md
         SELECT FORMATMESSAGE('Signed int %i', -5), FORMATMESSAGE('Hello %s!', 'TEST'), FORMATMESSAGE('100%% %s', NULL),
             FORMATMESSAGE('%s %d', N'n', 5), FORMATMESSAGE('a %s b')
             => 'Signed int -5', 'Hello TEST!', '100% (null)', 'n 5', 'a (null) b'
         SELECT FORMATMESSAGE('%03i', 1) ;; SELECT FORMATMESSAGE('%-20s', 'a') ;; SELECT FORMATMESSAGE('%.3s', 'a') ;;
             SELECT FORMATMESSAGE('%u', 1) ;; SELECT FORMATMESSAGE('%x', 1) ;; SELECT FORMATMESSAGE('%d', '5') ;;
             SELECT FORMATMESSAGE('%s', 5) ;; SELECT FORMATMESSAGE('%d', CAST(5 AS bigint)) => error 59000
         SELECT FORMATMESSAGE(20009) => error 59000"#,
    );
}

#[test]
fn dates_are_moved_and_counted() {
    check(
        "== dates are moved
         -- docs/t-sql/functions/dateadd-transact-sql.md, examples A and B
         DECLARE @d datetime2 = '2007-01-01 13:10:10.1111111';
             SELECT CAST(DATEADD(year, 1, @d) AS varchar(40)), CAST(DATEADD(month, 13, @d) AS varchar(40)),
             CAST(DATEADD(week, 5, @d) AS varchar(16)), CAST(DATEADD(hour, 23, @d) AS varchar(16))
             => '2008-01-01 13:10:10.1111111', '2008-02-01 13:10:10.1111111', '2007-02-05 13:10', '2007-01-02 12:10'
         DECLARE @d datetime2 = '2007-01-01 13:10:10.1111111';
             SELECT CAST(DATEADD(minute, -11, @d) AS varchar(40)), CAST(DATEADD(second, 59, @d) AS varchar(40)),
             CAST(DATEADD(millisecond, 1, @d) AS varchar(40))
             => '2007-01-01 12:59:10.1111111', '2007-01-01 13:11:09.1111111', '2007-01-01 13:10:10.1121111'
         SELECT CAST(DATEADD(month, 1, CAST('20060831' AS datetime2(0))) AS varchar(40)) => '2006-09-30 00:00:00'
         SELECT DATEADD(month, 1, '20060830') AS d WHERE 1 = 0 => tokens COLMETADATA(d DateTime) | DONE(count=0)
         SELECT DATEADD(year, 2147483647, CAST('20060731' AS datetime)) => error 59000
         SELECT DATEADD(year, -2147483647, CAST('20060731' AS datetime)) => error 59000
         SELECT DATEADD(day, 1, CAST('20060731' AS date)) => error 59000
         SELECT DATEADD(year, 2147483648, '20060731') => error 8115
         SELECT DATEADD(day, NULL, '20060731') => NULL
         == boundaries are counted
         -- docs/t-sql/functions/datediff-transact-sql.md
         DECLARE @a datetime2 = '2005-12-31 23:59:59.9999999', @b datetime2 = '2006-01-01';
             SELECT DATEDIFF(year, @a, @b), DATEDIFF(month, @a, @b), DATEDIFF(day, @a, @b), DATEDIFF(week, @a, @b),
             DATEDIFF(hour, @a, @b), DATEDIFF(minute, @a, @b), DATEDIFF(second, @a, @b), DATEDIFF(ms, @a, @b)
             => 1, 1, 1, 1, 1, 1, 1, 1
         SELECT DATEDIFF(day, '2036-03-01', '2036-02-28'), DATEDIFF_BIG(ms, '19000101', '20240101')
             => -2, BigInt(3913056000000)
         SELECT DATEDIFF(ms, '19000101', '20240101') => error 59000
         SELECT DATEDIFF(ms, CAST('00:00' AS datetime), CAST('00:00:00.007' AS datetime)) => 7
         == offsets change
         -- docs/t-sql/functions/switchoffset-transact-sql.md
         SELECT CAST(SWITCHOFFSET(CAST('1998-09-20 07:45:50.71345' AS datetimeoffset), '+00:00') AS varchar(40))
             => '1998-09-20 07:45:50.7134500 +00:00'
         SELECT SWITCHOFFSET(SYSDATETIMEOFFSET(), '-08:00') => error 59000
         == the clock is the statements
         SELECT IIF(SYSUTCDATETIME() = SYSUTCDATETIME(), 1, 0) => 1
         SELECT GETDATE() AS d WHERE 1 = 0 => tokens COLMETADATA(d DateTime) | DONE(count=0)",
    );
}
