//! Roles, users, logins, databases and permissions.

use std::sync::Arc;

use crate::error::SqlResult;
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::security::{CreateUser, Permission, PermissionAction, Securable, SecurableClass, UserSource};
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;

/// The permissions that exist on what the dev server has.
///
/// Source: "Permissions (Database Engine)", docs/relational-databases/security/permissions-database-engine.md.
const PERMISSIONS: &[&str] = &[
    "CONNECT",
    "CONTROL",
    "CREATE FUNCTION",
    "CREATE PROCEDURE",
    "CREATE ROLE",
    "CREATE SCHEMA",
    "CREATE TABLE",
    "CREATE TYPE",
    "CREATE VIEW",
    "DELETE",
    "EXECUTE",
    "INSERT",
    "REFERENCES",
    "SELECT",
    "UPDATE",
    "VIEW DEFINITION",
];

impl Parser<'_> {
    pub(super) fn create_principal_or_database(&mut self) -> SqlResult<StatementKind> {
        self.expect("CREATE")?;
        let noun = self.keyword();
        self.advance();
        match noun.as_str() {
            "ROLE" => {
                let name = self.identifier()?;
                let owner = if self.accept("AUTHORIZATION") { Some(self.identifier()?) } else { None };
                Ok(StatementKind::CreateRole { name, owner })
            }
            "USER" => self.create_user(),
            "LOGIN" => self.create_login(),
            _ => self.create_database(),
        }
    }

    fn create_database(&mut self) -> SqlResult<StatementKind> {
        if self.is_one_of(&["SCOPED", "AUDIT", "ENCRYPTION"]) {
            return Err(self.unsupported(format!("CREATE DATABASE {}", self.keyword())));
        }
        let name = self.identifier()?;
        let collation = if self.accept("COLLATE") { Some(self.identifier()?) } else { None };
        if self.is_one_of(&["ON", "CONTAINMENT", "WITH", "FOR", "AS"]) {
            return Err(self.unsupported("options of CREATE DATABASE"));
        }
        Ok(StatementKind::CreateDatabase { name, collation })
    }

    fn create_user(&mut self) -> SqlResult<StatementKind> {
        let name = self.identifier()?;
        let source = UserSource::Login(name.clone());
        let mut user = CreateUser { name, source, default_schema: None };
        if self.accept("WITHOUT") {
            self.expect("LOGIN")?;
            user.source = UserSource::WithoutLogin;
        } else if self.is_one_of(&["FOR", "FROM"]) {
            self.advance();
            if self.accept("EXTERNAL") {
                self.expect("PROVIDER")?;
                user.source = UserSource::ExternalProvider;
            } else if self.accept("LOGIN") {
                user.source = UserSource::Login(self.identifier()?);
            } else {
                return Err(self.unsupported("users from certificates and keys"));
            }
        }
        if self.accept("WITH") {
            self.comma_list(|p| p.user_option(&mut user))?;
        }
        Ok(StatementKind::CreateUser(user))
    }

    fn user_option(&mut self, user: &mut CreateUser) -> SqlResult<()> {
        if !self.is("DEFAULT_SCHEMA") {
            return Err(self.unsupported(format!("the user option {}", self.keyword())));
        }
        self.advance();
        self.expect_symbol(Symbol::Equal)?;
        user.default_schema = Some(self.identifier()?);
        Ok(())
    }

    fn create_login(&mut self) -> SqlResult<StatementKind> {
        let name = self.identifier()?;
        if self.accept("FROM") {
            if self.accept("EXTERNAL") {
                self.expect("PROVIDER")?;
            } else if !self.accept("WINDOWS") {
                return Err(self.unsupported("logins from certificates and keys"));
            }
            if self.is("WITH") {
                return Err(self.unsupported("options of CREATE LOGIN … FROM"));
            }
            return Ok(StatementKind::CreateLogin { name, password: None });
        }
        let password = Some(self.login_password()?);
        if self.is_symbol(Symbol::Comma) {
            return Err(self.unsupported("options of CREATE LOGIN"));
        }
        Ok(StatementKind::CreateLogin { name, password })
    }

    /// `LOGIN name WITH PASSWORD = '…'`.
    pub(super) fn alter_login(&mut self) -> SqlResult<StatementKind> {
        self.expect("LOGIN")?;
        let name = self.identifier()?;
        if !(self.is("WITH") && self.is_ahead(1, "PASSWORD")) {
            return Err(self.unsupported("ALTER LOGIN other than WITH PASSWORD"));
        }
        let password = self.login_password()?;
        if self.is_one_of(&["OLD_PASSWORD", "UNLOCK"]) || self.accept_symbol(Symbol::Comma) {
            return Err(self.unsupported("options of ALTER LOGIN"));
        }
        Ok(StatementKind::AlterLogin { name, password })
    }

    /// `WITH PASSWORD = '…'`.
    fn login_password(&mut self) -> SqlResult<Arc<str>> {
        self.expect_all(&["WITH", "PASSWORD"])?;
        self.expect_symbol(Symbol::Equal)?;
        if matches!(self.token().kind, TokenKind::Binary(_)) {
            return Err(self.unsupported("hashed passwords"));
        }
        let password = self.string()?;
        if self.is_one_of(&["HASHED", "MUST_CHANGE"]) {
            return Err(self.unsupported(format!("the login option {}", self.keyword())));
        }
        Ok(password)
    }

    /// `ROLE role ADD | DROP MEMBER member`.
    pub(super) fn alter_role(&mut self) -> SqlResult<StatementKind> {
        self.expect("ROLE")?;
        let role = self.identifier()?;
        if self.is("WITH") {
            return Err(self.unsupported("ALTER ROLE … WITH NAME"));
        }
        let add = self.accept("ADD");
        if !add {
            self.expect("DROP")?;
        }
        self.expect("MEMBER")?;
        let member = self.identifier()?;
        Ok(StatementKind::AlterRole { role, add, member })
    }

    /// `AUTHORIZATION ON SCHEMA::name TO principal`.
    pub(super) fn alter_authorization(&mut self) -> SqlResult<StatementKind> {
        self.expect_all(&["AUTHORIZATION", "ON"])?;
        if !self.is("SCHEMA") || !self.is_symbol_ahead(1, Symbol::DoubleColon) {
            return Err(self.unsupported("ALTER AUTHORIZATION ON anything but schemas"));
        }
        self.advance();
        self.advance();
        let schema = self.identifier()?;
        self.expect("TO")?;
        Ok(StatementKind::AlterAuthorization { schema, to: self.identifier()? })
    }

    /// GRANT, DENY and REVOKE.
    pub(super) fn permission(&mut self) -> SqlResult<StatementKind> {
        let action = match self.keyword().as_str() {
            "GRANT" => PermissionAction::Grant,
            "DENY" => PermissionAction::Deny,
            _ => PermissionAction::Revoke,
        };
        self.advance();
        let revokes = action == PermissionAction::Revoke;
        if revokes && self.is("GRANT") {
            return Err(self.unsupported("the grant option"));
        }
        let permissions = self.comma_list(Self::permission_name)?;
        let on = if self.accept("ON") { Some(self.securable()?) } else { None };
        let from_allowed = revokes && self.accept("FROM");
        if !from_allowed {
            self.expect("TO")?;
        }
        let principals = self.comma_list(Self::principal)?;
        if self.is("WITH") && self.is_ahead(1, "GRANT") {
            return Err(self.unsupported("the grant option"));
        }
        if action != PermissionAction::Grant {
            self.accept("CASCADE");
        }
        if self.is("AS") {
            return Err(self.unsupported("permissions AS another principal"));
        }
        Ok(StatementKind::Permission(Permission { action, permissions, on, principals }))
    }

    /// One permission: words up to a comma, ON, TO or FROM.
    fn permission_name(&mut self) -> SqlResult<Ident> {
        let mut words = Vec::new();
        while matches!(self.token().kind, TokenKind::Word { .. }) && !self.is_one_of(&["ON", "TO", "FROM"]) {
            words.push(self.keyword());
            self.advance();
        }
        if words.is_empty() {
            return Err(self.unexpected());
        }
        if self.is_symbol(Symbol::LeftParen) {
            return Err(self.unsupported("permissions on columns"));
        }
        let mut name = words.join(" ");
        if name == "EXEC" {
            name = "EXECUTE".to_owned();
        }
        if !PERMISSIONS.contains(&name.as_str()) {
            return Err(self.unsupported(format!("the permission {name}")));
        }
        Ok(name.into())
    }

    fn securable(&mut self) -> SqlResult<Securable> {
        let mut class = SecurableClass::Object;
        if self.is_symbol_ahead(1, Symbol::DoubleColon) {
            class = match self.keyword().as_str() {
                "OBJECT" => SecurableClass::Object,
                "TYPE" => SecurableClass::Type,
                other => return Err(self.unsupported(format!("the class {other}::"))),
            };
            self.advance();
            self.advance();
        }
        let name = self.object_name()?;
        if self.is_symbol(Symbol::LeftParen) {
            return Err(self.unsupported("permissions on columns"));
        }
        Ok(Securable { class, name })
    }

    /// A user or role; PUBLIC is a reserved word, but a role.
    fn principal(&mut self) -> SqlResult<Ident> {
        if self.accept("PUBLIC") { Ok(Ident::from("public")) } else { self.identifier() }
    }
}
