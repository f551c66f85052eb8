//! The properties of a job, from its row.

use crate::catalog::{Column, Family};
use crate::expression::{Terms, Value};
use crate::mapping::At;
use crate::names::bracketed;

use super::json_object::JsonObject;
use super::marks::Marks;
use super::texts::{as_text, claim_word, row_column};

impl Marks<'_> {
    /// The payload as bytes, and whether it is UTF-16, from a row with these column names.
    pub(super) fn payload(&self, of: &dyn Fn(&str) -> String) -> (String, u8) {
        let payload = &self.plan.mapping.payload;
        let columns: Vec<&Column> = payload.iter().filter_map(|at| self.plan.table.column(&at.it)).collect();
        if let [column] = columns.as_slice() {
            let name = of(&column.name);
            return match column.family() {
                Family::Bytes if column.max_length == -1 => (format!("ISNULL({name}, 0x)"), 0),
                Family::Bytes => (format!("ISNULL(CAST({name} AS varbinary(max)), 0x)"), 0),
                Family::WideText if column.max_length == -1 => {
                    (format!("ISNULL(CAST({name} AS varbinary(max)), 0x)"), 1)
                }
                _ => (
                    format!("ISNULL(CAST(CAST({} AS nvarchar(max)) AS varbinary(max)), 0x)", as_text(column, &name)),
                    1,
                ),
            };
        }
        let mut object = JsonObject::default();
        for column in columns {
            let value = of(&column.name);
            let text = as_text(column, &value);
            match column.family() {
                Family::Integer | Family::Decimal => object.bare(&column.name, &text, column.is_nullable),
                Family::Bit => {
                    let word = format!("CASE {value} WHEN 1 THEN N'true' WHEN 0 THEN N'false' END");
                    object.bare(&column.name, &word, column.is_nullable);
                }
                Family::WideText | Family::Text => {
                    object.text(&column.name, &format!("STRING_ESCAPE({text}, 'json')"), column.is_nullable);
                }
                _ => object.text(&column.name, &text, column.is_nullable),
            }
        }
        let whole = object.whole(|first| format!("CAST({first} AS nvarchar(max))"));
        (format!("CAST({whole} AS varbinary(max))"), 1)
    }

    /// The key by column names, for the handler and for operators, from a row with these column names.
    pub(super) fn headers(&self, of: &dyn Fn(&str) -> String) -> String {
        let mut object = JsonObject::default();
        for column in self.plan.mapping.key.iter().filter_map(|at| self.plan.table.column(&at.it)) {
            let text = as_text(column, &of(&column.name));
            let text = match column.family() {
                Family::WideText | Family::Text => format!("STRING_ESCAPE({text}, 'json')"),
                _ => text,
            };
            object.text(&column.name, &text, false);
        }
        object.whole(str::to_string)
    }

    pub(super) fn time(&self, at: &At<Value>, terms: &Terms<'_>) -> String {
        let text = at.it.sql(terms);
        let is_offset =
            |name: &str| self.plan.table.column(name).is_some_and(|column| column.type_name == "datetimeoffset");
        let has_offset = at.it.has_offset() || at.it.columns().into_iter().any(is_offset);
        if has_offset { format!("SWITCHOFFSET({text}, '+00:00')") } else { text }
    }

    pub(super) fn created(&self) -> String {
        let columns = &self.plan.mapping.columns;
        match columns.created.as_ref().or(columns.due.as_ref()) {
            Some(at) => {
                let time = self.time(at, &Terms { column: &row_column, word: &claim_word });
                format!("CAST(ISNULL({time}, @now) AS datetime2(3))")
            }
            None => "@now".to_string(),
        }
    }

    pub(super) fn due(&self, terms: &Terms<'_>) -> String {
        let columns = &self.plan.mapping.columns;
        match columns.due.as_ref().or(columns.created.as_ref()) {
            Some(at) => format!("CAST(ISNULL({}, @now) AS datetime2(3))", self.time(at, terms)),
            None => "@now".to_string(),
        }
    }

    pub(super) fn due_of_theirs(&self) -> String {
        let columns = &self.plan.mapping.columns;
        // An expression that can fail is not used, because rejected rows have not been skipped yet.
        match columns.due.as_ref().or(columns.created.as_ref()).filter(|at| !at.it.can_fail()) {
            Some(at) => {
                let time = self.time(at, &Terms { column: &bracketed, word: &claim_word });
                format!("CAST({time} AS datetime2(3))")
            }
            None => "CAST(NULL AS datetime2(3))".to_string(),
        }
    }

    pub(super) fn priority(&self) -> String {
        match &self.plan.mapping.columns.priority {
            Some(at) => {
                let value = at.it.sql(&Terms { column: &row_column, word: &claim_word });
                format!(
                    "CAST(CASE WHEN {value} < -32768 THEN -32768 WHEN {value} > 32766 THEN 32766 ELSE ISNULL({value}, 0) END AS smallint)"
                )
            }
            None => "0".to_string(),
        }
    }

    pub(super) fn kind(&self) -> String {
        match &self.plan.mapping.columns.kind {
            Some(at) => {
                let value = at.it.sql(&Terms { column: &row_column, word: &claim_word });
                format!("CAST(NULLIF(LEFT({value}, 64), '') AS varchar(64))")
            }
            None => "NULL".to_string(),
        }
    }

    /// For rows that are not claimed yet: as in [`due_of_theirs`](Self::due_of_theirs), no expression that can fail.
    pub(super) fn kind_of_theirs(&self) -> String {
        let kind = self.plan.mapping.columns.kind.as_ref().filter(|at| !at.it.can_fail());
        let value = kind.map_or("NULL".to_string(), |at| {
            format!("LEFT({}, 64)", at.it.sql(&Terms { column: &bracketed, word: &claim_word }))
        });
        format!("CAST({value} AS varchar(64)) COLLATE Latin1_General_100_BIN2")
    }

    /// The claim's result for a job, by the names of `@answer`, for an inserted or changed job.
    pub(super) fn answer(&self) -> Vec<(&'static str, String)> {
        // The milliseconds from a time to the claim.
        let milliseconds_since = |time: &str, column: &str| {
            if time == "@now" { "0".to_string() } else { format!("DATEDIFF_BIG(MILLISECOND, inserted.{column}, @now)") }
        };
        let due = self.due(&Terms { column: &row_column, word: &claim_word });
        let is_short = "CASE WHEN DATALENGTH(inserted.payload) <= @max_payload_bytes THEN";
        let payload = format!("{is_short} inserted.payload ELSE CAST(DATALENGTH(inserted.payload) AS binary(8)) END");
        let mut answer = vec![
            ("job_id", "inserted.job_id".to_string()),
            ("fence", "inserted.fence".to_string()),
            ("attempt", "inserted.attempt".to_string()),
            ("priority", "inserted.priority".to_string()),
            ("waited_ms", milliseconds_since(&due, "due_at")),
            ("age_ms", milliseconds_since(&self.created(), "enqueued_at")),
            ("payload_utf16", format!("{is_short} inserted.payload_utf16 END")),
            ("payload", payload),
        ];
        if self.plan.mapping.columns.kind.is_some() {
            answer.push(("kind", "inserted.kind".to_string()));
        }
        if !self.plan.mapping.takes_out() {
            // The other members of `details` may be missing.
            answer.push(("details", "N'{\"headers\":' + inserted.headers + N'}'".to_string()));
        }
        answer
    }
}
