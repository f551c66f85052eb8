//! Halves of surrogate pairs, which are characters like any other: none of the collations here knows supplementary
//! characters. Sources: "Collation and Unicode support", supplementary characters
//! (docs/relational-databases/collations/collation-and-unicode-support.md); "NCHAR" and "STRING_SPLIT"
//! (docs/t-sql/functions/).

use crate::session::tests::harness::check;

#[test]
fn halves_are_kept_compared_and_searched() {
    check(
        r#"== a half is kept measured and converted
         DECLARE @h nvarchar(9) = LEFT(N'😀', 1);
             SELECT LEN(@h), DATALENGTH(@h), CAST(@h AS varchar(9)), CAST(@h AS varbinary(9))
             => 1, 2, '?', Bytes([61, 216])
         SELECT CAST(CAST(0x3DD8 AS nvarchar(9)) AS varbinary(9)), CAST(NCHAR(56832) AS varbinary(9))
             => Bytes([61, 216]), Bytes([0, 222])
         DECLARE @h nvarchar(9) = LEFT(N'😀', 1), @l nvarchar(9) = NCHAR(0xDE00);
             SELECT @h + @l, CONCAT(@h, @l), LEN(@h + @l), CAST(@h + @l AS varchar(9)) => '😀', '😀', 2, '??'
         SELECT CAST(SUBSTRING(N'a😀b', 3, 2) AS varbinary(9)) => Bytes([0, 222, 98, 0])
         == halves are compared sorted and searched
         CREATE TABLE t (c nvarchar(9) COLLATE Latin1_General_BIN2 NOT NULL, n int NOT NULL) => ok
         INSERT t VALUES (NCHAR(0xFFFF), 6), (N'😀', 3), (NCHAR(0xD83D), 2), (NCHAR(0xE000), 5), (N'a', 1),
             (NCHAR(0xDE00), 4) => ok
         SELECT n FROM t ORDER BY c => 1 | 2 | 3 | 4 | 5 | 6
         CREATE UNIQUE INDEX i ON t (c) => ok
         SELECT n FROM t WITH (INDEX (i)) WHERE c > N'' ORDER BY c => 1 | 2 | 3 | 4 | 5 | 6
         SELECT n FROM t WHERE c = NCHAR(0xD83D) => 2
         SELECT COUNT(*) FROM t WHERE c > NCHAR(0xD83D) => 4
         SELECT n FROM t WHERE c LIKE NCHAR(0xD83D) + N'_' => 3
         INSERT t VALUES (LEFT(N'😀', 1), 7) => error 2601
         INSERT t VALUES (NCHAR(0xD83E), 7) => ok
         SELECT COUNT(*) FROM (SELECT DISTINCT LEFT(c, 1) AS c FROM t) AS d => 6
         SELECT CHARINDEX(NCHAR(0xDE00), N'a😀'), PATINDEX(N'%[' + NCHAR(0xDE00) + N']', N'a😀') => 3, 3
         == a half separates parts and a pair is no single character
         SELECT CAST(value AS varbinary(9)) FROM STRING_SPLIT(N'😀😀', NCHAR(0xDE00)) => Bytes([61, 216])
             | Bytes([61, 216]) | Bytes([])
         SELECT value FROM STRING_SPLIT(N'a', N'😀') => error 214
         == json escapes halves
         SELECT CAST(value AS varbinary(9)) FROM OPENJSON(N'["\ud83d"]') => Bytes([61, 216])
         SELECT value FROM OPENJSON(N'["\ud83d\ude00"]') => '😀'
         -- These two characters stand for halves in here, and would be taken for a pair.
         SELECT [key], value FROM OPENJSON(N'{"a":"\udbfe\udc00\udbff\udfff"}') => error 59000
         SELECT [key], value FROM OPENJSON(N'{"\udbfe\udc00":1}') => error 59000"#,
    );
}
