//! Notifications for systemd, if it started this process with `Type=notify` or `WatchdogSec`: `sd_notify(3)`.
//!
//! Messages are datagrams to the socket in NOTIFY_SOCKET. Without that variable nothing is sent.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use readpast::WorkerMonitor;

use crate::texts::number;

/// The variables for this process, which are not passed to the programs that it runs.
pub const VARIABLES: [&str; 3] = [SOCKET, WATCHDOG_USEC, WATCHDOG_PID];

const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
const WATCHDOG_PID: &str = "WATCHDOG_PID";

/// How often the status line changes, unless the watchdog needs more.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct ServiceManager {
    /// The service manager's socket, or `None` if systemd has not started this process.
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// systemd kills the process after this time without a message.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Reads the connection to the service manager from the environment.
    pub fn of_this_process() -> ServiceManager {
        let socket = std::env::var_os(SOCKET).filter(|name| !name.is_empty()).and_then(|name| {
            // systemd ends a service that does not report that it is ready. The warning shows the reason.
            connected(&name).inspect_err(|error| tracing::warn!(%error, ?name, "cannot use NOTIFY_SOCKET; the service manager gets no notifications")).ok()
        });
        let watchdog = watchdog(std::env::var_os(WATCHDOG_USEC), std::env::var_os(WATCHDOG_PID), std::process::id());
        ServiceManager { socket, watchdog }
    }

    /// The worker is registered and claims.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// The worker was told to stop, or has stopped.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Reports the status repeatedly and, at intervals of half the watchdog's time, that the worker is alive. The test
    /// is that of `/healthz`. Never returns if there is a socket.
    pub async fn keep_telling(&self, worker: &WorkerMonitor) {
        if self.socket.is_none() {
            return;
        }
        let interval = self.watchdog.map_or(STATUS_INTERVAL, |watchdog| STATUS_INTERVAL.min(watchdog / 2));
        // After a standstill, one message is enough.
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let status = status(worker);
            match (worker.is_alive(), self.watchdog) {
                (true, Some(_)) => self.tell(&format!("WATCHDOG=1\nSTATUS={status}")),
                (true, None) => self.tell(&format!("STATUS={status}")),
                (false, _) => self.tell(&format!("STATUS=the worker's thread is stuck; {status}")),
            }
        }
    }

    /// Never waits; a message that is not read is lost.
    fn tell(&self, message: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(message.as_bytes(), address)
        {
            tracing::debug!(%error, "the service manager could not be told");
        }
    }
}

/// A socket connected to a path or, with `@` in front, to one of Linux's abstract names.
fn connected(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path nor an abstract name")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

/// The watchdog's time, if it watches this process. (The parent may be watched instead.)
fn watchdog(microseconds: Option<OsString>, pid: Option<OsString>, own_pid: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.to_str() != Some(&own_pid.to_string())) {
        return None;
    }
    let microseconds: u64 = microseconds?.to_str()?.parse().ok()?;
    (microseconds > 0).then(|| Duration::from_micros(microseconds))
}

/// `3 running, 12 waiting, 1,240 done, 2 dead`
fn status(worker: &WorkerMonitor) -> String {
    let stats = worker.stats();
    let [running, buffered] = [stats.running, stats.buffered].map(|jobs| number(jobs as u64));
    let lease = if stats.lease_held { "" } else { "; it does not hold its lease, or is stopping" };
    format!("{running} running, {buffered} waiting, {} done, {} dead{lease}", number(stats.done), number(stats.dead))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(address: &SocketAddr, socket: &UnixDatagram, name: &OsStr) -> String {
        let own = connected(name).unwrap();
        let manager = ServiceManager { socket: Some(own), watchdog: None };
        manager.ready();
        let mut message = [0; 64];
        let read = socket.recv(&mut message).unwrap();
        assert_eq!(socket.local_addr().unwrap().as_abstract_name(), address.as_abstract_name());
        String::from_utf8_lossy(&message[..read]).into_owned()
    }

    #[test]
    fn an_address_is_a_path_or_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let address = SocketAddr::from_pathname(&path).unwrap();
        assert_eq!(words(&address, &UnixDatagram::bind(&path).unwrap(), path.as_os_str()), "READY=1");
        let name = format!("readpast-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        assert_eq!(words(&address, &socket, OsStr::new(&format!("@{name}"))), "READY=1");
        for other in ["vsock:2:9999", "relative/path"] {
            assert_eq!(connected(OsStr::new(other)).unwrap_err().kind(), io::ErrorKind::Unsupported, "{other}");
        }
    }

    #[test]
    fn whoever_does_not_read_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _full = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager { socket: connected(path.as_os_str()).ok(), watchdog: None };
        for _ in 0..10_000 {
            manager.tell("STATUS=x");
        }
    }

    #[test]
    fn the_watchdog_is_this_process_s_own_and_has_a_time() {
        let watchdog = |usec: &str, pid: Option<&str>| watchdog(Some(usec.into()), pid.map(OsString::from), 7);
        assert_eq!(watchdog("30000000", Some("7")), Some(Duration::from_secs(30)));
        assert_eq!(watchdog("30000000", None), Some(Duration::from_secs(30)));
        assert_eq!(watchdog("30000000", Some("8")), None);
        assert_eq!(watchdog("0", Some("7")), None);
        assert_eq!(watchdog("soon", None), None);
        assert_eq!(super::watchdog(None, None, 7), None);
    }
}
