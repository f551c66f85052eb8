//! The bodies of the fuzz targets in `fuzz/` with a fixed seed and mutations of valid inputs: what every machine can
//! run.

mod bodies;
use crate::wire;

use bodies::{SESSION_STACK, valid};

/// Changes a few bytes: another value, a bit, a length at its limits, a piece cut out, doubled, or taken from another
/// input.
fn mutate(random: &mut fastrand::Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..random.usize(1..5) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = random.usize(..bytes.len());
        let end = (at + random.usize(1..20)).min(bytes.len());
        match random.u8(..7) {
            0 => bytes[at] = random.u8(..),
            1 => bytes[at] ^= 1 << random.u8(..8),
            2 => bytes[at..end].fill([0, 0xFF, 0x7F][random.usize(..3)]),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            5 if !other.is_empty() => {
                let start = random.usize(..other.len());
                let piece = &other[start..(start + random.usize(1..40)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// Runs a body over valid inputs and their mutations, on a stack like a session's. A failure names the input.
fn run(body: fn(&[u8]), inputs: Vec<Vec<u8>>, mutations: usize) {
    let work = move || {
        let mut random = fastrand::Rng::with_seed(7);
        let try_one = |bytes: &[u8]| {
            if std::panic::catch_unwind(|| body(bytes)).is_err() {
                panic!("this input: {:?}\n{}", bytes, String::from_utf8_lossy(bytes));
            }
        };
        for input in &inputs {
            try_one(input);
        }
        for _ in 0..mutations {
            let input = &inputs[random.usize(..inputs.len())];
            let other = &inputs[random.usize(..inputs.len())];
            let mutated = mutate(&mut random, input, other);
            try_one(&mutated);
        }
    };
    let thread = std::thread::Builder::new().stack_size(SESSION_STACK).spawn(work).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn packets() {
    run(bodies::packets, valid::packets(), 10_000);
}

#[test]
fn logins() {
    run(bodies::login, valid::logins(), 20_000);
}

#[test]
fn requests() {
    run(bodies::requests, valid::requests(), 20_000);
}

#[test]
fn t_sql() {
    run(bodies::parse_bytes, valid::t_sql(), 5_000);
}

#[test]
fn sessions() {
    run(bodies::session, valid::sessions(), 300);
}
