//! Reaps a program, with what it has used.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};

use readpast::Usage;
use wait4::Wait4 as _;

use super::job_meter::peak_of;

/// Waits for a program's exit. Returns its status, the CPU time of the program and of the children that it has waited
/// for, and the peak memory of the largest of these processes.
///
/// The peak is unknown if it is not larger than this process has been: a program is started by vfork, so that it shares
/// the memory of this process until it executes its file, and Linux counts that in the program's maximum.
///
/// Call it once: the number of a reaped process may belong to another one.
///
/// # Errors
///
/// If the system does not return the status.
pub fn reap(child: &mut Child) -> io::Result<(ExitStatus, Usage)> {
    let ended = loop {
        match child.wait4() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            ended => break ended?,
        }
    };
    let cpu = ended.rusage.utime + ended.rusage.stime;
    let peak = ended.rusage.maxrss;
    let peak_memory = (peak > 0 && !is_within_own_peak(peak)).then_some(peak);
    Ok((ended.status, Usage { cpu: Some(cpu), peak_memory }))
}

/// Whether this process itself has had as much memory.
fn is_within_own_peak(bytes: u64) -> bool {
    // The peak only grows: what was read earlier decides most cases.
    static READ: AtomicU64 = AtomicU64::new(0);
    if bytes <= READ.load(Ordering::Relaxed) {
        return true;
    }
    let own = peak_of("self").unwrap_or(0);
    READ.fetch_max(own, Ordering::Relaxed);
    bytes <= own
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    /// Runs a Python script. Returns its exit code, what was measured, and what it has printed.
    fn run(script: &str) -> (Option<i32>, Usage, String) {
        let mut command = Command::new("python3");
        let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut printed = String::new();
        child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let (status, usage) = reap(&mut child).unwrap();
        (status.code(), usage, printed.trim().to_owned())
    }

    #[test]
    fn the_cpu_time_is_that_of_the_program_and_of_the_children_that_it_waited_for() {
        let script = "
import os, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
burn(0.1)
time.sleep(0.2)
child = os.fork()
burn(0.2)
if not child:
    os._exit(0)
os.waitpid(child, 0)
print(sum(os.times()[:4]))
sys.exit(3)
";
        let (code, usage, printed) = run(script);
        // The program reads its clock in ticks of 10 ms, and goes on until it has exited.
        let (cpu, own) = (usage.cpu.unwrap().as_secs_f64(), printed.parse::<f64>().unwrap());
        assert!(code == Some(3) && own >= 0.48, "{code:?}, {own}");
        assert!((own - 0.02..own + 0.1).contains(&cpu), "{cpu}, and the program itself has read {own}");
    }

    #[test]
    fn the_peak_of_a_program_is_known_where_it_is_larger_than_that_of_this_process() {
        let own = peak_of("self").unwrap();
        let (_, usage, printed) = run(&format!(
            "b = b'x' * {}\ndel b\nprint(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])",
            own + (200 << 20)
        ));
        let (peak, told) = (usage.peak_memory.unwrap(), printed.parse::<u64>().unwrap() * 1024);
        assert!((told..told + (8 << 20)).contains(&peak), "{peak}, and the program itself has read {told}");
        // This process becomes larger than the program: the system counts it as the program's peak.
        let bytes = std::hint::black_box(vec![1_u8; own as usize + (200 << 20)]);
        let (_, usage, _) = run("pass");
        assert_eq!(usage.peak_memory, None);
        assert!(usage.cpu > Some(Duration::ZERO));
        drop(bytes);
    }
}
