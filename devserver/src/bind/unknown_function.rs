//! The functions that are functions of SQL Server, but not of the dev server: they are refused as such, so that nobody
//! takes them for misspelt.
//!
//! Source: the pages of "Built-in functions" (MicrosoftDocs/sql-docs, docs/t-sql/functions/), those of SQL Server 2025
//! included.

/// By subject.
#[rustfmt::skip]
const UNKNOWN_HERE: &[&[&str]] = &[
    // Aggregate and analytic functions.
    &[
        "approx_count_distinct", "approx_percentile_cont", "approx_percentile_disc", "checksum_agg", "cume_dist",
        "dense_rank", "grouping", "grouping_id", "lag", "last_value", "lead", "ntile", "percent_rank",
        "percentile_cont", "percentile_disc", "product", "rank", "stdev", "stdevp", "var", "varp",
    ],
    // Bits.
    &[
        "bit_count", "get_bit", "left_shift", "right_shift", "set_bit",
    ],
    // Collations and conversion.
    &[
        "collationproperty", "parse", "tertiary_weights", "try_parse",
    ],
    // Cryptography.
    &[
        "asymkey_id", "asymkeyproperty", "cert_id", "certencoded", "certprivatekey", "certproperty",
        "crypt_gen_random", "decryptbyasymkey", "decryptbycert", "decryptbykey", "decryptbykeyautoasymkey",
        "decryptbykeyautocert", "decryptbypassphrase", "encryptbyasymkey", "encryptbycert", "encryptbykey",
        "encryptbypassphrase", "is_objectsigned", "key_guid", "key_id", "key_name", "signbyasymkey", "signbycert",
        "symkeyproperty", "verifysignedbyasymkey", "verifysignedbycert",
    ],
    // Dates and times.
    &[
        "current_timezone", "current_timezone_id", "date_bucket", "datefromparts", "datename", "datepart",
        "datetime2fromparts", "datetimefromparts", "datetimeoffsetfromparts", "datetrunc", "day", "eomonth", "isdate",
        "month", "smalldatetimefromparts", "timefromparts", "todatetimeoffset", "year",
    ],
    // Graphs.
    &[
        "edge_id_from_parts", "graph_id_from_edge_id", "graph_id_from_node_id", "node_id_from_parts",
        "object_id_from_edge_id", "object_id_from_node_id",
    ],
    // JSON, vectors and models.
    &[
        "ai_generate_embeddings", "json_array", "json_arrayagg", "json_contains", "json_modify", "json_object",
        "json_objectagg", "json_path_exists", "json_query", "json_value", "vector_distance", "vector_norm",
        "vector_normalize", "vectorproperty",
    ],
    // Mathematics and logic.
    &[
        "acos", "asin", "atan", "atn2", "choose", "cos", "cot", "degrees", "exp", "greatest", "isnumeric", "least",
        "log", "log10", "pi", "radians", "rand", "round", "sign", "sin", "sqrt", "square", "tan",
    ],
    // Metadata.
    &[
        "applock_test", "assemblyproperty", "file_id", "file_idex", "file_name", "filegroup_id", "filegroup_name",
        "filegroupproperty", "fileproperty", "filepropertyex", "fulltextcatalogproperty", "fulltextserviceproperty",
        "ident_current", "ident_incr", "ident_seed", "index_col", "indexkey_property", "objectpropertyex",
        "original_db_name", "parsename", "stats_date", "typeproperty",
    ],
    // Security and replication.
    &[
        "has_dbaccess", "loginproperty", "permissions", "publishingservername", "pwdcompare", "pwdencrypt", "suser_id",
        "suser_sid",
    ],
    // Text.
    &[
        "ascii", "base64_decode", "base64_encode", "concat_ws", "difference", "edit_distance",
        "edit_distance_similarity", "format", "jaro_winkler_distance", "jaro_winkler_similarity", "regexp_count",
        "regexp_instr", "regexp_like", "regexp_replace", "regexp_substr", "reverse", "soundex", "space", "str",
        "translate", "unicode", "unistr",
    ],
    // The system, triggers and large objects.
    &[
        "binary_checksum", "checksum", "columns_updated", "compress", "connectionproperty", "context_info",
        "current_request_id", "cursor_status", "decompress", "eventdata", "filetablerootpath",
        "get_filestream_transaction_context", "getansinull", "getpathlocator", "host_id", "min_active_rowversion",
        "newsequentialid", "rowcount_big", "session_context", "sql_variant_property", "textptr", "textvalid",
        "trigger_nestlevel",
    ],
];

/// Whether a folded name is one of them.
pub(super) fn is_unknown_here(name: &str) -> bool {
    UNKNOWN_HERE.iter().any(|subject| subject.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::UNKNOWN_HERE;
    use crate::value::lookup;

    #[test]
    fn none_of_them_is_known() {
        for name in UNKNOWN_HERE.iter().copied().flatten() {
            assert!(lookup(&name.to_uppercase()).is_none(), "{name}");
        }
    }
}
