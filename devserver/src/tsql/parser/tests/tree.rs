//! The trees that the parser builds.

use crate::error::NOT_SUPPORTED;
use crate::tsql::ast::{
    ArgumentValue, AssignOp, BinaryOp, ColumnKind, ConstraintKind, Creation, ExecuteTarget, Expr, Ident, Identity,
    IndexOption, IndexRef, InsertSource, JoinKind, Literal, NewValue, Predicate, QueryHint, SecurableClass, SelectItem,
    StatementKind, TableDefinition, TableHint, TableSource, TargetName, TypeArguments,
};
use crate::tsql::parser::entry::{parse_expression, parse_parameter_list, parse_predicate};
use crate::tsql::parser::tests::fixture::{
    error_number, grouped, grouped_condition, only_select, only_statement, parse_batch,
};

// Expressions

#[test]
fn operators_bind_as_in_tsql() {
    let expect = [
        ("1 + 2 * 3", "(1 Add (2 Multiply 3))"),
        ("1 - 2 - 3", "((1 Subtract 2) Subtract 3)"),
        ("(1 - (2 - 3)) * 4", "((1 Subtract (2 Subtract 3)) Multiply 4)"),
        ("1 | 2 + 3 & 4 ^ 5", "((((1 BitOr 2) Add 3) BitAnd 4) BitXor 5)"),
        ("-1 * 2", "(Minus (1 Multiply 2))"),
        ("100 / -2 * 5", "(100 Divide (Minus (2 Multiply 5)))"),
        ("-1 + 2", "((Minus 1) Add 2)"),
        ("~1 * 2", "((BitNot 1) Multiply 2)"),
        ("a + b COLLATE x", "(a Add (b collate x))"),
    ];
    for (text, tree) in expect {
        assert_eq!(grouped(&parse_expression(text).unwrap()), tree, "{text}");
    }
}

#[test]
fn conditions_bind_as_in_tsql() {
    let expect = [
        ("a = 1 OR b = 2 AND c = 3", "[a Equal 1 or [b Equal 2 and c Equal 3]]"),
        ("NOT a = 1 AND b = 2", "[not a Equal 1 and b Equal 2]"),
        ("(a = 1 AND b = 2) AND c !> 3", "[a Equal 1 and b Equal 2 and c LessOrEqual 3]"),
        ("((a) + 1) * 2 > (b)", "((a Add 1) Multiply 2) Greater b"),
        ("((a = 1))", "a Equal 1"),
    ];
    for (text, tree) in expect {
        assert_eq!(grouped_condition(&parse_predicate(text).unwrap()), tree, "{text}");
    }
}

#[test]
fn between_takes_its_own_and() {
    let condition = parse_predicate("a BETWEEN 1 AND 2 AND b NOT IN (1, 2)").unwrap();
    let Predicate::And(terms) = condition else { panic!() };
    assert!(matches!(terms[0], Predicate::Between { negated: false, .. }));
    assert!(matches!(&terms[1], Predicate::InList { negated: true, list, .. } if list.len() == 2));
}

#[test]
fn literals_have_their_types() {
    assert_eq!(parse_expression("2147483647"), Ok(Expr::Literal(Literal::Int(i32::MAX))));
    assert_eq!(parse_expression("2147483648"), Ok(Expr::Literal(Literal::Decimal("2147483648".into()))));
    assert_eq!(parse_expression("1.50"), Ok(Expr::Literal(Literal::Decimal("1.50".into()))));
    let string = Literal::String { value: "it's".into(), national: true };
    assert_eq!(parse_expression("N'it''s'"), Ok(Expr::Literal(string)));
    assert_eq!(parse_expression("NULL"), Ok(Expr::Literal(Literal::Null)));
}

#[test]
fn names_keep_their_parts() {
    let Ok(Expr::Column(column)) = parse_expression("[my db]..t.[c]") else { panic!() };
    let table = column.table.unwrap();
    assert_eq!((table.database.as_deref(), table.schema, &*table.name), (Some("my db"), None, "t"));
    assert_eq!(&*column.name, "c");
    let Ok(Expr::Function(call)) = parse_expression("DATEDIFF(ms, dbo.f(1), b)") else { panic!() };
    assert_eq!(call.arguments[0], Expr::DatePart(crate::value::DatePart::Millisecond));
    let Expr::Function(inner) = &call.arguments[1] else { panic!() };
    assert_eq!((inner.name.schema.as_deref(), &*inner.name.name), (Some("dbo"), "f"));
}

// Queries

#[test]
fn select_items_are_aliases_assignments_and_wildcards() {
    let select = only_select("SELECT a = 1, 2 AS b, 3 c, 'd' = 4, *, t.*, f FROM t");
    let aliases: Vec<Option<&str>> = select
        .items
        .iter()
        .map(|item| match item {
            SelectItem::Expr { alias, .. } => alias.as_deref(),
            SelectItem::Wildcard { table } => table.as_ref().map(|table| &*table.name).or(Some("*")),
            SelectItem::Assign { .. } => None,
        })
        .collect();
    assert_eq!(aliases, [Some("a"), Some("b"), Some("c"), Some("d"), Some("*"), Some("t"), None]);

    let select = only_select("SELECT @a = 1, @b += a FROM t");
    let ops: Vec<AssignOp> = select
        .items
        .iter()
        .filter_map(|item| if let SelectItem::Assign { op, .. } = item { Some(*op) } else { None })
        .collect();
    assert_eq!(ops, [AssignOp::Set, AssignOp::Compound(BinaryOp::Add)]);
}

#[test]
fn hints_are_typed_wherever_they_stand() {
    let expected = vec![TableHint::RowLock, TableHint::ReadPast, TableHint::Index(IndexRef::Name("ix".into()))];
    for text in
        ["SELECT 1 FROM t x WITH (ROWLOCK, READPAST, INDEX(ix))", "SELECT 1 FROM t WITH (rowlock READPAST INDEX (ix))"]
    {
        let select = only_select(text);
        let TableSource::Table { hints, .. } = &select.from[0] else { panic!() };
        assert_eq!(*hints, expected, "{text}");
    }
    let select = only_select("SELECT 1 FROM t (NOLOCK) x");
    let TableSource::Table { hints, alias, .. } = &select.from[0] else { panic!() };
    assert_eq!((hints.as_slice(), alias.as_deref()), (&[TableHint::NoLock][..], Some("x")));

    let StatementKind::Select(statement) = only_statement("SELECT 1 OPTION (MAXDOP 1, RECOMPILE, LOOP JOIN)") else {
        panic!()
    };
    assert_eq!(statement.options, [QueryHint::OfCost, QueryHint::Recompile, QueryHint::LoopJoin]);
}

#[test]
fn joins_nest_by_their_on() {
    let shape = |text: &str| {
        fn of(source: &TableSource) -> String {
            match source {
                TableSource::Table { name, .. } => name.name.to_string(),
                TableSource::Join { left, right, .. } => format!("({} {})", of(left), of(right)),
                TableSource::Apply { left, right, .. } => format!("({} apply {})", of(left), of(right)),
                other => format!("{other:?}"),
            }
        }
        only_select(text).from.iter().map(of).collect::<Vec<String>>().join(", ")
    };
    assert_eq!(shape("SELECT 1 FROM a JOIN b ON 1 = 1 JOIN c ON 1 = 1, d"), "((a b) c), d");
    assert_eq!(shape("SELECT 1 FROM a JOIN b JOIN c ON 1 = 1 ON 1 = 1"), "(a (b c))");
    assert_eq!(shape("SELECT 1 FROM a LEFT JOIN (b CROSS JOIN c) ON 1 = 1"), "(a (b c))");
    assert_eq!(shape("SELECT 1 FROM a CROSS JOIN b CROSS APPLY c"), "((a b) apply c)");
    let select = only_select("SELECT 1 FROM a LEFT OUTER LOOP JOIN b ON 1 = 1");
    assert!(matches!(select.from[0], TableSource::Join { kind: JoinKind::Left, loops: true, .. }));
}

// Data modification

#[test]
fn the_claim_of_a_queue_is_understood() {
    let text = "WITH c AS (SELECT TOP (@n) * FROM q.jobs WITH (UPDLOCK, READPAST) WHERE state = 1 ORDER BY job_id)
                UPDATE c SET state = 2, attempt += 1, @last = fence = fence + 1
                OUTPUT inserted.job_id, deleted.state AS old INTO @claimed (job_id, old)
                OUTPUT inserted.*;";
    let StatementKind::Update(update) = only_statement(text) else { panic!() };
    assert_eq!(update.ctes.len(), 1);
    assert!(matches!(&update.target.name, TargetName::Table(name) if &*name.name == "c"));
    assert_eq!(update.assignments[1].op, AssignOp::Compound(BinaryOp::Add));
    let last = &update.assignments[2];
    assert_eq!(last.variable.as_deref(), Some("@last"));
    assert_eq!(last.column.as_ref().map(|column| &*column.name), Some("fence"));
    assert_eq!(update.output.len(), 2);
    let into = update.output[0].into.as_ref().unwrap();
    assert_eq!(into.target, TargetName::Variable("@claimed".into()));
    assert_eq!(into.columns.len(), 2);
}

#[test]
fn insert_knows_columns_from_a_parenthesised_query() {
    let StatementKind::Insert(insert) = only_statement("INSERT t (a, b) VALUES (1, DEFAULT), (2, 3)") else { panic!() };
    assert_eq!(insert.columns.as_ref().map(Vec::len), Some(2));
    let InsertSource::Values(rows) = &insert.source else { panic!() };
    assert_eq!(rows[0][1], NewValue::Default);
    let StatementKind::Insert(insert) = only_statement("INSERT t (SELECT 1)") else { panic!() };
    assert!(insert.columns.is_none() && matches!(insert.source, InsertSource::Query(_)));
    let StatementKind::Insert(insert) = only_statement("INSERT @t OUTPUT inserted.a EXEC p 1") else { panic!() };
    assert!(matches!(insert.source, InsertSource::Execute(_)));
}

#[test]
fn delete_tells_its_target_from_its_sources() {
    let StatementKind::Delete(delete) = only_statement("DELETE FROM j FROM q.jobs AS j JOIN @ids i ON i.id = j.id")
    else {
        panic!()
    };
    assert!(matches!(&delete.target.name, TargetName::Table(name) if &*name.name == "j"));
    assert_eq!(delete.from.len(), 1);
}

// Definitions

#[test]
fn a_table_keeps_columns_constraints_and_indexes_apart() {
    let text = "CREATE TABLE q.jobs (
                  id bigint IDENTITY(5, 2) NOT NULL PRIMARY KEY NONCLUSTERED,
                  state tinyint NOT NULL CONSTRAINT df DEFAULT (1 + 1),
                  name nvarchar(max) COLLATE Latin1_General_BIN2 NULL CHECK (name <> N''),
                  amount decimal(10, 2), size AS DATALENGTH(name),
                  INDEX ix UNIQUE CLUSTERED (state, id DESC))";
    let StatementKind::CreateTable(table) = only_statement(text) else { panic!() };
    let TableDefinition { columns, constraints, indexes } = &table.definition;
    assert_eq!((columns.len(), constraints.len(), indexes.len()), (5, 2, 1));
    assert_eq!(columns[0].identity, Some(Identity { seed: 5, increment: 2 }));
    assert_eq!(columns[0].nullable, Some(false));
    let default = columns[1].default.as_ref().unwrap();
    assert_eq!((default.constraint.as_deref(), &*default.text), (Some("df"), "(1 + 1)"));
    assert!(matches!(&columns[2].kind, ColumnKind::Typed(data_type) if data_type.arguments == TypeArguments::Max));
    assert!(
        matches!(&columns[3].kind, ColumnKind::Typed(data_type) if data_type.arguments == TypeArguments::Two(10, 2))
    );
    assert!(matches!(&columns[4].kind, ColumnKind::Computed { text, .. } if &**text == "DATALENGTH(name)"));
    assert!(matches!(&constraints[0].kind, ConstraintKind::Key { primary: true, clustered: Some(false), .. }));
    assert!(matches!(&constraints[1].kind, ConstraintKind::Check { text, .. } if &**text == "name <> N''"));
    assert!(indexes[0].unique && indexes[0].clustered && indexes[0].columns[1].descending);
}

#[test]
fn a_filtered_index_keeps_its_filter_as_written() {
    let text =
        "CREATE UNIQUE INDEX ix ON t (a) INCLUDE (b) WHERE (state IN (1, 2) AND a IS NOT NULL) WITH (ONLINE = ON)";
    let StatementKind::CreateIndex(index) = only_statement(text) else { panic!() };
    let filter = index.filter.unwrap();
    assert_eq!(&*filter.text, "(state IN (1, 2) AND a IS NOT NULL)");
    assert!(matches!(filter.condition, Predicate::And(terms) if terms.len() == 2));
    assert_eq!(index.options, [IndexOption::Online(true)]);
    assert!(index.unique && !index.clustered);
}

#[test]
fn inline_indexes_can_be_filtered() {
    let StatementKind::CreateTable(table) = only_statement("CREATE TABLE t (a int INDEX ix WHERE a > 1)") else {
        panic!()
    };
    assert!(table.definition.indexes[0].filter.is_some());
}

#[test]
fn a_procedure_takes_the_rest_of_its_batch() {
    let text = "CREATE OR ALTER PROC q.claim\n  @n int = -1,\n  @ids q.id_list READONLY,\n  @out int OUTPUT\nAS\nSET NOCOUNT ON;\nSELECT 1";
    let StatementKind::CreateProcedure(procedure) = only_statement(text) else { panic!() };
    assert_eq!(procedure.creation, Creation::CreateOrAlter);
    assert_eq!(&*procedure.text, text);
    assert_eq!(procedure.body.len(), 2);
    assert_eq!(procedure.body[1].line, 7);
    assert!(procedure.parameters[0].default.is_some() && procedure.parameters[1].read_only);
    assert!(procedure.parameters[2].output);
}

#[test]
fn parameter_lists_are_read_alone() {
    let parameters = parse_parameter_list("@a int, @b nvarchar(max) = N'x' OUTPUT, @c q.ids READONLY").unwrap();
    assert_eq!(parameters.len(), 3);
    assert!(parameters[1].output && parameters[2].read_only);
    assert_eq!(parse_parameter_list(" -- none"), Ok(Vec::new()));
    assert!(parse_parameter_list("@a int @b int").is_err());
}

#[test]
fn permissions_are_in_capitals_and_classed() {
    let StatementKind::Permission(permission) = only_statement("grant exec, view definition on type::q to w, public")
    else {
        panic!()
    };
    assert_eq!(permission.permissions, [Ident::from("EXECUTE"), Ident::from("VIEW DEFINITION")]);
    assert_eq!(permission.on.unwrap().class, SecurableClass::Type);
    assert_eq!(permission.principals, [Ident::from("w"), Ident::from("public")]);
}

// Control of flow

#[test]
fn else_belongs_to_the_nearest_if() {
    let StatementKind::If { then, otherwise, .. } = only_statement("IF 1 = 1 IF 2 = 2 PRINT 1; ELSE PRINT 2") else {
        panic!()
    };
    assert!(otherwise.is_none());
    assert!(matches!(then.kind, StatementKind::If { otherwise: Some(_), .. }));
}

#[test]
fn execute_tells_arguments_from_the_next_statement() {
    let statements = parse_batch("EXEC @r = q.p 1, N'a', word, @x OUTPUT, @n = DEFAULT SELECT 1").unwrap();
    assert_eq!(statements.len(), 2);
    let StatementKind::Execute(execute) = &statements[0].kind else { panic!() };
    assert_eq!(execute.return_variable.as_deref(), Some("@r"));
    assert_eq!(execute.arguments.len(), 5);
    assert_eq!(execute.arguments[3].value, ArgumentValue::Variable { name: "@x".into(), output: true });
    assert_eq!(execute.arguments[4].name.as_deref(), Some("@n"));
    let StatementKind::Execute(execute) = only_statement("sp_who 'x'") else { panic!() };
    assert!(matches!(&execute.target, ExecuteTarget::Procedure(name) if &*name.name == "sp_who"));
}

#[test]
fn throw_without_a_semicolon_before_it_is_what_sql_server_makes_of_it() {
    assert!(matches!(&only_statement("ROLLBACK TRAN THROW"), StatementKind::RollbackTransaction(Some(_))));
    assert_eq!(error_number("PRINT 'a' THROW 50000, 'x', 1"), 102);
    let statements = parse_batch("ROLLBACK; THROW").unwrap();
    assert_eq!(statements[1].kind, StatementKind::Throw(None));
}

#[test]
fn quoted_identifier_stays_on() {
    assert!(parse_batch("SET QUOTED_IDENTIFIER, ANSI_NULLS ON").is_ok());
    assert_eq!(error_number("SET QUOTED_IDENTIFIER OFF"), NOT_SUPPORTED);
}
