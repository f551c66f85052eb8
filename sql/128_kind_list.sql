-- Counts for note_kinds. The columns are those of kind_history.
IF TYPE_ID(N'[$(schema)].[kind_list]') IS NULL
    CREATE TYPE [$(schema)].[kind_list] AS TABLE
    (
        kind    varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
        measure tinyint     NOT NULL,
        bucket  tinyint     NOT NULL,
        jobs    bigint      NOT NULL,
        total   float       NOT NULL,
        largest bigint      NOT NULL,
        PRIMARY KEY CLUSTERED (kind, measure, bucket)
    );
GO
