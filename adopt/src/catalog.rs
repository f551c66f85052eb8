//! A table's columns, indexes and constraints, from the catalog.

use crate::error::Error;
use readpast::admin::adopt_seam::AdoptSeam;

use super::names::{TableName, bracketed, literal};

const CATALOG: &str = include_str!("../sql/catalog.sql.part");

#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: TableName,
    pub(super) is_owned_by_dbo: bool,
    pub(super) may_install: bool,
    /// A property of the table that rules out an adoption, such as `partitioned`: its rows cannot be locked one by one,
    /// found in order, or seen by every session.
    pub(super) speciality: Option<String>,
    pub(super) columns: Vec<Column>,
    pub(super) indexes: Vec<Index>,
    pub(super) triggers: Vec<String>,
    /// Its check constraints and foreign keys.
    pub(super) constraints: Vec<String>,
    /// Foreign keys of other tables to this one.
    pub(super) references: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    /// `nvarchar`, without its length; empty for a CLR type.
    pub(super) type_name: String,
    /// In bytes; -1 for max.
    pub(super) max_length: i32,
    pub(super) precision: i32,
    pub(super) scale: i32,
    pub(super) collation: Option<String>,
    pub(super) is_nullable: bool,
    pub(super) is_identity: bool,
    pub(super) is_computed: bool,
    pub(super) has_default: bool,
    /// Masked or encrypted: a worker would read another value.
    pub(super) is_hidden: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) is_clustered: bool,
    pub(super) is_unique: bool,
    pub(super) has_row_locks: bool,
    pub(super) filter: Option<String>,
    /// The columns, each with whether it is descending.
    pub(super) key: Vec<(String, bool)>,
    pub(super) included: Vec<String>,
}

/// The classes of types that a mapping distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Integer,
    Decimal,
    Bit,
    WideText,
    Text,
    Bytes,
    Time,
    Guid,
    /// A type that no mapping can use.
    Other,
}

impl Column {
    pub(super) fn family(&self) -> Family {
        match self.type_name.as_str() {
            "tinyint" | "smallint" | "int" | "bigint" => Family::Integer,
            "decimal" | "numeric" | "float" | "real" | "money" | "smallmoney" => Family::Decimal,
            "bit" => Family::Bit,
            "nchar" | "nvarchar" => Family::WideText,
            "char" | "varchar" => Family::Text,
            "binary" | "varbinary" => Family::Bytes,
            "date" | "time" | "datetime" | "datetime2" | "smalldatetime" | "datetimeoffset" => Family::Time,
            "uniqueidentifier" => Family::Guid,
            _ => Family::Other,
        }
    }

    pub(super) fn most_characters(&self) -> Option<i32> {
        match (self.family(), self.max_length) {
            (Family::WideText | Family::Text, -1) => None,
            (Family::WideText, bytes) => Some(bytes / 2),
            (Family::Text, bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The least and the greatest value of an integer type ("int, bigint, smallint, and tinyint").
    pub(super) fn integers(&self) -> Option<(f64, f64)> {
        match self.type_name.as_str() {
            "tinyint" => Some((0.0, 255.0)),
            "smallint" => Some((-32_768.0, 32_767.0)),
            "int" => Some((-2_147_483_648.0, 2_147_483_647.0)),
            "bigint" => Some((-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_807.0)),
            _ => None,
        }
    }

    pub(super) fn sql_type(&self) -> String {
        let length = |unit: i32| match self.max_length {
            -1 => "max".to_string(),
            bytes => (bytes / unit).to_string(),
        };
        let name = &self.type_name;
        match name.as_str() {
            "nchar" | "nvarchar" => format!("{name}({})", length(2)),
            "char" | "varchar" | "binary" | "varbinary" => format!("{name}({})", length(1)),
            "decimal" | "numeric" => format!("{name}({}, {})", self.precision, self.scale),
            "float" => format!("{name}({})", self.precision),
            "time" | "datetime2" | "datetimeoffset" => format!("{name}({})", self.scale),
            _ => name.clone(),
        }
    }

    /// The declaration of a nullable column, with a text's collation.
    pub(super) fn declaration(&self) -> String {
        match &self.collation {
            Some(collation) => format!("{} COLLATE {collation} NULL", self.sql_type()),
            None => format!("{} NULL", self.sql_type()),
        }
    }

    /// Whether SQL Server alone assigns the column's value.
    pub(super) fn is_given(&self) -> bool {
        self.is_computed || matches!(self.type_name.as_str(), "timestamp" | "rowversion")
    }
}

impl Table {
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        let exact = self.columns.iter().find(|column| column.name == name);
        exact.or_else(|| self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)))
    }

    /// The facts on which an adoption relies, one per line.
    pub(super) fn facts(&self) -> String {
        let mut facts = String::new();
        for column in &self.columns {
            let mut line = format!("column {}: {}", column.name, column.sql_type());
            if let Some(collation) = &column.collation {
                line += &format!(" {collation}");
            }
            line += if column.is_nullable { " null" } else { " not null" };
            for (is, word) in
                [(column.is_identity, " identity"), (column.is_computed, " computed"), (column.has_default, " default")]
            {
                if is {
                    line += word;
                }
            }
            facts += &format!("{line}\n");
        }
        for index in &self.indexes {
            let columns: Vec<String> = index
                .key
                .iter()
                .map(|(name, descending)| format!("{}{}", bracketed(name), if *descending { " desc" } else { "" }))
                .collect();
            let mut line = format!("index {}:", index.name);
            for (is, word) in [(index.is_unique, " unique"), (index.is_clustered, " clustered")] {
                if is {
                    line += word;
                }
            }
            line += &format!(" ({})", columns.join(", "));
            if !index.included.is_empty() {
                let included: Vec<String> = index.included.iter().map(|name| bracketed(name)).collect();
                line += &format!(" include ({})", included.join(", "));
            }
            if let Some(filter) = &index.filter {
                line += &format!(" where {filter}");
            }
            facts += &format!("{line}\n");
        }
        for trigger in &self.triggers {
            facts += &format!("trigger {trigger}: enabled\n");
        }
        for constraint in &self.constraints {
            facts += &format!("{constraint}: on the table\n");
        }
        for reference in &self.references {
            facts += &format!("{reference}: to the table\n");
        }
        facts
    }
}

/// Reads the table's description and the database's name. The table is `None` if it does not exist, or if the login may
/// not see it.
pub(super) async fn read(session: &mut AdoptSeam, name: &TableName) -> Result<(Option<Table>, String), Error> {
    let sql = CATALOG.replace("/*{table_literal}*/", &literal(&name.sql()));
    let mut results = session.query("catalog", &sql).await?.into_iter();
    let mut next = || results.next().unwrap_or_default();
    let database = match next().pop() {
        Some(mut row) => row.required("database_name")?,
        None => String::new(),
    };
    let Some(mut object) = next().pop() else { return Ok((None, database)) };
    let object_type: String = object.required("type")?;
    if object_type != "U" {
        return Ok((None, database));
    }
    let is_owned_by_dbo = object.required::<i32>("is_owned_by_dbo")? == 1;
    let may_install = object.required::<i32>("may_install")? == 1;
    let speciality = Some(object.required::<String>("speciality")?).filter(|speciality| !speciality.is_empty());
    let mut columns = Vec::new();
    for mut row in next() {
        columns.push(Column {
            name: row.required("name")?,
            type_name: row.optional::<String>("type_name")?.unwrap_or_default(),
            max_length: row.required("max_length")?,
            precision: row.required("precision")?,
            scale: row.required("scale")?,
            collation: row.optional("collation_name")?,
            is_nullable: row.required::<i32>("is_nullable")? == 1,
            is_identity: row.required::<i32>("is_identity")? == 1,
            is_computed: row.required::<i32>("is_computed")? == 1,
            has_default: row.required::<i32>("has_default")? == 1,
            is_hidden: row.required::<i32>("is_hidden")? == 1,
        });
    }
    let mut indexes: Vec<(i32, Index)> = Vec::new();
    for mut row in next() {
        let id: i32 = row.required("index_id")?;
        let name: String = row.required("name")?;
        let is_unique = row.required::<i32>("is_unique")? == 1;
        let filter: Option<String> = row.optional("filter_definition")?;
        let column: String = row.required("column_name")?;
        let is_key = row.required::<i32>("key_ordinal")? > 0;
        let descending = row.required::<i32>("is_descending")? == 1;
        let has_row_locks = row.required::<i32>("allow_row_locks")? == 1;
        if indexes.last().is_none_or(|(last, _)| *last != id) {
            let (key, included) = (Vec::new(), Vec::new());
            let index = Index { name, is_clustered: id == 1, is_unique, has_row_locks, filter, key, included };
            indexes.push((id, index));
        }
        if let Some((_, index)) = indexes.last_mut() {
            if is_key {
                index.key.push((column, descending));
            } else {
                index.included.push(column);
            }
        }
    }
    let (mut triggers, mut constraints, mut references) = (Vec::new(), Vec::new(), Vec::new());
    for mut row in next() {
        let kind: String = row.required("kind")?;
        let name: String = row.required("name")?;
        match kind.as_str() {
            "trigger" => triggers.push(name),
            "reference" => references.push(format!("the foreign key {name}")),
            _ => constraints.push(format!("the {kind} {name}")),
        }
    }
    let indexes = indexes.into_iter().map(|(_, index)| index).collect();
    let name = name.clone();
    let table =
        Table { name, is_owned_by_dbo, may_install, speciality, columns, indexes, triggers, constraints, references };
    Ok((Some(table), database))
}
