//! What the client is told of its session: login, database, transaction, packet size.

use crate::tds::login::{FEATURE_FEDERATED_AUTHENTICATION, Login, Proof};
use crate::tds::packet::{DEFAULT_PACKET_SIZE, put_b_varchar};
use crate::tds::token::number::{
    ENVIRONMENT_BEGIN_TRANSACTION, ENVIRONMENT_COLLATION, ENVIRONMENT_COMMIT_TRANSACTION, ENVIRONMENT_DATABASE,
    ENVIRONMENT_LANGUAGE, ENVIRONMENT_PACKET_SIZE, ENVIRONMENT_RESET_DONE, ENVIRONMENT_ROLLBACK_TRANSACTION,
    TOKEN_ENVIRONMENT_CHANGE, TOKEN_FEATURE_EXT_ACK, TOKEN_LOGIN_ACK, TOKEN_SSPI,
};
use crate::tds::token::response::ResponseWriter;
use crate::value::Collation;

const PROGRAM_NAME: &str = "Microsoft SQL Server";
const LANGUAGE: &str = "us_english";

impl ResponseWriter {
    /// An outermost transaction began. `descriptor` is not 0 and new for each transaction.
    pub fn transaction_begun(&mut self, descriptor: u64) {
        self.transaction_descriptor = descriptor;
        self.put_environment(ENVIRONMENT_BEGIN_TRANSACTION, &descriptor_bytes(descriptor), &[0]);
    }

    /// The outermost transaction was committed.
    pub fn transaction_committed(&mut self, descriptor: u64) {
        self.transaction_descriptor = 0;
        self.put_environment(ENVIRONMENT_COMMIT_TRANSACTION, &[0], &descriptor_bytes(descriptor));
    }

    /// The whole transaction was rolled back.
    pub fn transaction_rolled_back(&mut self, descriptor: u64) {
        self.transaction_descriptor = 0;
        self.put_environment(ENVIRONMENT_ROLLBACK_TRANSACTION, &[0], &descriptor_bytes(descriptor));
    }

    /// USE has changed the database.
    pub fn database_changed(&mut self, new: &str, old: &str) {
        self.put_database(new, old, 1);
    }

    /// The message's state is 1 after USE and 2 after a login.
    fn put_database(&mut self, new: &str, old: &str, state: u8) {
        self.put_environment(ENVIRONMENT_DATABASE, &name_bytes(new), &name_bytes(old));
        self.info(5701, 10, state, &format!("Changed database context to '{new}'."), None, 1);
    }

    /// SET LANGUAGE has set the language that there is.
    pub fn language_set(&mut self) {
        self.put_language(LANGUAGE);
    }

    fn put_language(&mut self, old: &str) {
        self.put_environment(ENVIRONMENT_LANGUAGE, &name_bytes(LANGUAGE), &name_bytes(old));
        self.info(5703, 10, 1, &format!("Changed language setting to {LANGUAGE}."), None, 1);
    }

    /// The login was accepted: LOGINACK, the session's environment, and from the next answer on its packet size.
    /// `server_version` is as in PRELOGIN.
    pub(crate) fn login_accepted(&mut self, login: &Login, database: &str, spid: u16, server_version: [u8; 4]) {
        self.put_database(database, "", 2);
        self.put_environment(ENVIRONMENT_COLLATION, &collation_bytes(), &[0]);
        self.put_language("");
        self.put_login_ack(login.tds_version, server_version);
        let old_size = DEFAULT_PACKET_SIZE.to_string();
        let new_size = login.packet_size.to_string();
        self.put_environment(ENVIRONMENT_PACKET_SIZE, &name_bytes(&new_size), &name_bytes(&old_size));
        if login.has_features {
            self.tokens.push(TOKEN_FEATURE_EXT_ACK);
            if let Proof::Token(_) = login.proof {
                self.tokens.extend_from_slice(&[FEATURE_FEDERATED_AUTHENTICATION, 0, 0, 0, 0]);
            }
            self.tokens.push(0xFF); // no other is in use
        }
        if let Some(connection) = &mut self.connection {
            connection.spid = spid;
        }
    }

    /// What Kerberos has to say to the client, in a message of its own: tiberius, which is in use with Active
    /// Directory, reads on in the next one.
    pub(crate) fn integrated_answer(&mut self, answer: &[u8]) {
        let length_at = self.begin_sized_token(TOKEN_SSPI);
        self.tokens.extend_from_slice(answer);
        self.end_sized_token(length_at);
        self.send(true);
    }

    /// The packet size that [`ResponseWriter::login_accepted`] announced comes into force.
    pub(crate) fn use_packet_size(&mut self, packet_size: usize) {
        if let Some(connection) = &mut self.connection {
            connection.packet_size = packet_size;
        }
    }

    /// The session was reset for a connection pool; its transaction, if it had to go, was rolled back.
    pub(crate) fn session_reset(&mut self, keep_transaction: bool) {
        if !keep_transaction {
            self.transaction_reset();
        }
        self.put_environment(ENVIRONMENT_RESET_DONE, &[0], &[0]);
    }

    /// A reset has rolled back the transaction that the client knows of, if any.
    pub(crate) fn transaction_reset(&mut self) {
        if self.transaction_descriptor != 0 {
            self.transaction_rolled_back(self.transaction_descriptor);
        }
    }

    fn put_environment(&mut self, kind: u8, new: &[u8], old: &[u8]) {
        self.release_done();
        let length_at = self.begin_sized_token(TOKEN_ENVIRONMENT_CHANGE);
        self.tokens.push(kind);
        self.tokens.extend_from_slice(new);
        self.tokens.extend_from_slice(old);
        self.end_sized_token(length_at);
    }

    fn put_login_ack(&mut self, tds_version: u32, server_version: [u8; 4]) {
        const INTERFACE_TSQL: u8 = 1;
        let length_at = self.begin_sized_token(TOKEN_LOGIN_ACK);
        self.tokens.push(INTERFACE_TSQL);
        // Here, unlike in LOGIN7, the most significant byte comes first.
        self.tokens.extend_from_slice(&tds_version.to_be_bytes());
        put_b_varchar(&mut self.tokens, PROGRAM_NAME);
        self.tokens.extend_from_slice(&server_version);
        self.end_sized_token(length_at);
    }
}

/// B_VARBYTE with the descriptor of a transaction.
fn descriptor_bytes(descriptor: u64) -> [u8; 9] {
    let mut bytes = [8; 9];
    bytes[1..].copy_from_slice(&descriptor.to_le_bytes());
    bytes
}

/// B_VARBYTE with the server's collation.
fn collation_bytes() -> [u8; 6] {
    let mut bytes = [5; 6];
    bytes[1..].copy_from_slice(&Collation::default().tds_bytes());
    bytes
}

fn name_bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_b_varchar(&mut bytes, name);
    bytes
}
