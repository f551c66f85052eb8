//! The wire: packets in, messages out of them, requests out of messages; tokens into packets on the way back.
//!
//! In the order a connection uses them: [`packet`] frames, [`prelogin`] negotiates, [`tls`] encrypts, [`login`] reads
//! who is there, [`request`] reads what they want (values by [`wire_type`]), [`token`] writes the answer.
//!
//! Written by hand after "[MS-TDS]: Tabular Data Stream Protocol", because the crate `tds-protocol` serves the client
//! only: it encodes LOGIN7, RPC and table-valued parameters but does not decode them, and decodes COLMETADATA and ROW
//! but does not encode them.

pub mod login;
pub mod packet;
pub mod prelogin;
pub mod request;
pub mod tls;
pub mod token;
pub mod wire_type;
