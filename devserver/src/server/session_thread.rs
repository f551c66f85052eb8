//! A connection's thread: logs in, runs one request after the other, and writes the answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use crate::catalog::connections::Wire;
use crate::error::{SqlError, SqlResult};
use crate::server::shared::{Shared, Signals, Work};
use crate::session::Session;
use crate::tds::login::{self, Proof};
use crate::tds::packet::{Message, PacketType, Reset};
use crate::tds::request::{self, Request};
use crate::tds::token::{ResponseWriter, SocketWriter};
use crate::{access_token, kerberos};

/// The session's thread.
pub(super) fn run_session(
    shared: &Shared,
    login: &Message,
    is_encrypted: bool,
    mut work: mpsc::Receiver<Work>,
    output: SocketWriter,
    signals: &Arc<Signals>,
) {
    let mut out = ResponseWriter::new(output);
    shared.engine.faults.gate().pass();
    match log_in(shared, login, is_encrypted, &mut out) {
        Ok(session) => run_requests(shared, session, &mut work, &mut out, signals),
        Err(error) => {
            out.error(&error);
            out.finish();
        }
    }
    out.close();
}

fn run_requests(
    shared: &Shared,
    mut session: Session,
    work: &mut mpsc::Receiver<Work>,
    out: &mut ResponseWriter,
    signals: &Arc<Signals>,
) {
    let killed = Arc::clone(signals);
    session.on_kill(move || killed.killed.notify_one());
    *signals.cancel.lock() = Some(session.cancel_handle());
    while let Some(item) = work.blocking_recv() {
        shared.engine.faults.gate().pass();
        if signals.hung_up.load(Ordering::Acquire) {
            return;
        }
        match item {
            Work::Request(message) => {
                answer(shared, &mut session, &message, out, signals);
                signals.pending.fetch_sub(1, Ordering::AcqRel);
                signals.answered.notify_one();
            }
            Work::Attention => {
                signals.attention.store(false, Ordering::Release);
                if shared.log_sql {
                    log(session.spid(), "-- cancelled by the client");
                }
                out.acknowledge_attention();
            }
        }
        if out.is_fatal() || out.is_client_gone() {
            return;
        }
    }
}

/// Decodes and checks the login, and answers it where it succeeds.
fn log_in(shared: &Shared, message: &Message, is_encrypted: bool, out: &mut ResponseWriter) -> SqlResult<Session> {
    if message.packet_type != PacketType::Login7 {
        return Err(SqlError::not_supported(format_args!("{:?} instead of LOGIN7", message.packet_type)).severity(20));
    }
    let mut login = login::decode(&message.payload)?;
    match &login.proof {
        Proof::Password => {}
        Proof::Token(token) => {
            login.request.user = shared.token_key.check(token)?;
            login.request.password = None;
        }
        Proof::Integrated(token) => {
            let accepted = kerberos::accept(token)?;
            // Kerberos is done with that: the client has nothing more to say, and the answer to its login follows.
            out.integrated_answer(&accepted.answer);
            login.request.user = accepted.login;
            login.request.password = None;
        }
    }
    let session = shared.engine.login(&login.request).map_err(|error| {
        if let (18456, Proof::Token(_)) = (error.number, &login.proof) {
            return access_token::refused("The server is not currently configured to accept this token.");
        }
        if error.number != 4060 {
            return error;
        }
        // SQL Server sends both: the database cannot be opened, so the login failed.
        out.error(&error);
        SqlError::new(18456, format!("Login failed for user '{}'.", login.request.user)).severity(14)
    })?;
    session.note_wire(Wire { packet_size: login.packet_size, is_encrypted });
    let version = shared.engine.release().wire_version();
    out.login_accepted(&login, &session.database(), session.spid(), version);
    out.finish();
    out.use_packet_size(login.packet_size);
    Ok(session)
}

/// Runs one request and answers it.
fn answer(shared: &Shared, session: &mut Session, message: &Message, out: &mut ResponseWriter, signals: &Signals) {
    if message.ignored {
        out.finish_cancelled();
        return;
    }
    if message.reset != Reset::No {
        let keep_transaction = message.reset == Reset::SessionButTransaction;
        session.reset(keep_transaction);
        out.session_reset(keep_transaction);
    }
    if let Err(error) = execute(shared, session, message, out, signals) {
        out.error(&error);
    }
    if signals.attention_pending() {
        out.finish_cancelled();
    } else {
        out.finish();
    }
}

/// What is wrong with the request itself comes back as an error; what goes wrong in it, the session writes.
fn execute(
    shared: &Shared,
    session: &mut Session,
    message: &Message,
    out: &mut ResponseWriter,
    signals: &Signals,
) -> SqlResult<()> {
    let client_request = request::decode(message)?;
    if shared.log_sql {
        log_request(session.spid(), &client_request.request);
    }
    let was_reset = message.reset != Reset::No;
    if !was_reset && client_request.transaction_descriptor != out.transaction_descriptor() {
        let message = "New request is not allowed to start because it should come with valid transaction descriptor.";
        return Err(SqlError::new(3989, message));
    }
    match client_request.request {
        Request::Batch(sql) => session.run_batch(&sql, out),
        Request::Transaction(request) => session.run_transaction_request(request, out),
        Request::Calls(calls) => {
            let last = calls.len() - 1;
            for (index, call) in calls.into_iter().enumerate() {
                if signals.attention_pending() {
                    break;
                }
                session.run_rpc(call, out);
                if index < last {
                    out.next_call_follows();
                }
            }
        }
    }
    Ok(())
}

fn log_request(spid: u16, request: &Request) {
    match request {
        Request::Batch(sql) => log(spid, sql.trim_end()),
        Request::Transaction(request) => log(spid, &request.to_string()),
        Request::Calls(calls) => {
            for call in calls {
                log(spid, &call.to_string());
            }
        }
    }
}

/// Prints with the session's number before every line. At once, so that sessions do not mix within a request.
fn log(spid: u16, what: &str) {
    let lines: String = what.lines().map(|line| format!("[{spid}] {line}\n")).collect();
    eprint!("{lines}");
}
