//! Decides whether an idle connection is still usable.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use crate::time::BootClock;

/// A connection that was idle for longer is replaced. This is a quarter of the four minutes after which Azure's load
/// balancers and NAT gateways drop a connection.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// The state of the network, as far as the connections of a queue learn it from each other.
#[derive(Debug)]
pub(crate) struct IdleTrust {
    max_idle_ns: AtomicU64,
    clock: BootClock,
    unanswered_since_ns: AtomicU64,
}

impl Default for IdleTrust {
    fn default() -> IdleTrust {
        let max_idle_ns = AtomicU64::new(MAX_IDLE.as_nanos() as u64);
        IdleTrust { max_idle_ns, clock: BootClock::default(), unanswered_since_ns: AtomicU64::new(0) }
    }
}

impl IdleTrust {
    pub(crate) fn max_idle(&self) -> Duration {
        Duration::from_nanos(self.max_idle_ns.load(Ordering::Acquire))
    }

    pub(crate) fn set_max_idle(&self, max_idle: Duration) {
        self.max_idle_ns.store(max_idle.as_nanos() as u64, Ordering::Release);
    }

    /// The time by a clock that keeps running while the machine is suspended.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Records that a call that was sent at `sent_at` got no response. SQL Server may only be slow, but a network
    /// device may have dropped this process's connections. Connections without a response since then are therefore not
    /// trusted.
    pub(crate) fn no_answer_since(&self, sent_at: Duration) {
        self.unanswered_since_ns.fetch_max(sent_at.as_nanos() as u64, Ordering::AcqRel);
    }

    /// Whether a connection whose last response came at `answered_at` may be dead unnoticed.
    pub(crate) fn is_doubtful(&self, answered_at: Duration) -> bool {
        let unanswered_since = Duration::from_nanos(self.unanswered_since_ns.load(Ordering::Acquire));
        answered_at < unanswered_since || self.clock.now().saturating_sub(answered_at) > self.max_idle()
    }
}

/// Makes the operating system probe an idle connection every 30 s, the default of Microsoft's own network library. The
/// probes keep the connection in the tables of network devices, and a dead connection is closed after 30 + 3 × 5 s.
pub(crate) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let probes = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(5));
    #[cfg(not(windows))] // there the number of probes can be set from Windows 10 1703 on only
    let probes = probes.with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&probes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_doubtful_after_a_minute_after_a_suspension_and_when_a_later_call_got_no_answer() {
        let idle = IdleTrust::default();
        let answered_at = idle.clock.now();
        idle.clock.shift(Duration::from_secs(59));
        assert!(!idle.is_doubtful(answered_at));
        idle.clock.shift(Duration::from_secs(2));
        assert!(idle.is_doubtful(answered_at));

        let (before, sent_at) = (idle.clock.now(), idle.clock.now() + Duration::from_millis(1));
        idle.no_answer_since(sent_at);
        idle.no_answer_since(before); // of two, the later counts
        assert!(idle.is_doubtful(before), "it may have died in the same way");
        assert!(!idle.is_doubtful(sent_at + Duration::from_millis(1)), "it was used since");
    }
}
