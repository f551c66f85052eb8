//! The numbers of tokens, of the bits in them, and of the changes of environment.

pub(super) const TOKEN_RETURN_STATUS: u8 = 0x79;
pub(super) const TOKEN_COLUMN_METADATA: u8 = 0x81;
pub(super) const TOKEN_ORDER: u8 = 0xA9;
pub(super) const TOKEN_ERROR: u8 = 0xAA;
pub(super) const TOKEN_INFO: u8 = 0xAB;
pub(super) const TOKEN_RETURN_VALUE: u8 = 0xAC;
pub(super) const TOKEN_LOGIN_ACK: u8 = 0xAD;
pub(super) const TOKEN_FEATURE_EXT_ACK: u8 = 0xAE;
pub(super) const TOKEN_ROW: u8 = 0xD1;
pub(super) const TOKEN_ENVIRONMENT_CHANGE: u8 = 0xE3;
pub(super) const TOKEN_SSPI: u8 = 0xED;
pub(super) const TOKEN_DONE: u8 = 0xFD;
pub(super) const TOKEN_DONE_PROCEDURE: u8 = 0xFE;
pub(super) const TOKEN_DONE_IN_PROCEDURE: u8 = 0xFF;

pub(super) const DONE_MORE: u16 = 0x01;
pub(super) const DONE_ERROR: u16 = 0x02;
pub(super) const DONE_COUNT: u16 = 0x10;
pub(super) const DONE_ATTENTION: u16 = 0x20;
/// Another call of the same message follows.
pub(super) const DONE_RPC_IN_BATCH: u16 = 0x80;

/// The command in the DONE that acknowledges an attention, as SQL Server sends it.
pub(super) const COMMAND_ATTENTION: u16 = 0xFD;

pub(super) const ENVIRONMENT_DATABASE: u8 = 1;
pub(super) const ENVIRONMENT_LANGUAGE: u8 = 2;
pub(super) const ENVIRONMENT_PACKET_SIZE: u8 = 4;
pub(super) const ENVIRONMENT_COLLATION: u8 = 7;
pub(super) const ENVIRONMENT_BEGIN_TRANSACTION: u8 = 8;
pub(super) const ENVIRONMENT_COMMIT_TRANSACTION: u8 = 9;
pub(super) const ENVIRONMENT_ROLLBACK_TRANSACTION: u8 = 10;
pub(super) const ENVIRONMENT_RESET_DONE: u8 = 18;

pub(super) const COLUMN_NULLABLE: u16 = 0x01;
/// usUpdateable = 2, which is what SQL Server says of the columns of tables that take values.
pub(super) const COLUMN_UPDATABLE_UNKNOWN: u16 = 0x08;
pub(super) const COLUMN_IDENTITY: u16 = 0x10;

/// The status of a RETURNVALUE that is an output parameter (the other one is a function's result).
pub(super) const RETURN_VALUE_OUTPUT: u8 = 0x01;
