//! The handlers: they hash and sort for a few milliseconds each, and some fail.

use readpast::{BoxError, Context, Handlers, Job, JobError, Json};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The payload of all jobs.
#[derive(Serialize, Deserialize)]
pub struct Order {
    /// The number of the order in its queue; seeds its random numbers.
    pub number: u64,
    pub customer: String,
}

/// Hashing this takes about two milliseconds.
const BYTES: usize = 1 << 20;

/// Sorting this takes about as long.
const NUMBERS: usize = 50_000;

/// Parts of an audit, each as long as a job, to show progress.
const PARTS: u32 = 400;

/// The handlers of the queue `hash`.
pub fn hash() -> Handlers {
    Handlers::new()
        .kind("digest", |job: &Job, context: &Context| {
            let order: Order = job.json()?;
            fail_sometimes(&order, context)?;
            Ok(Json(digest(&order, 0)))
        })
        .kind("audit", |job: &Job, context: &Context| {
            let order: Order = job.json()?;
            for part in 0..PARTS {
                if context.is_cancelled() || context.is_stopping() {
                    return Err("the demo is ending".into());
                }
                digest(&order, part);
                context.progress(part as f32 / PARTS as f32, &format!("part {part} of {PARTS}"));
            }
            Ok(Json(format!("{PARTS} parts are in order")))
        })
}

/// The handlers of the queue `sort`.
pub fn sort() -> Handlers {
    Handlers::new()
        .kind("median", |job: &Job, context: &Context| {
            let order: Order = job.json()?;
            fail_sometimes(&order, context)?;
            let numbers = sorted(&order);
            Ok(Json(numbers[numbers.len() / 2]))
        })
        .kind("distinct", |job: &Job, _context: &Context| {
            let mut numbers = sorted(&job.json()?);
            numbers.dedup();
            Ok(Json(numbers.len()))
        })
}

fn random_numbers(order: &Order, part: u32) -> fastrand::Rng {
    fastrand::Rng::with_seed(order.number + u64::from(part))
}

fn digest(order: &Order, part: u32) -> String {
    let mut bytes = vec![0; BYTES];
    random_numbers(order, part).fill(&mut bytes);
    Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sorted(order: &Order) -> Vec<u32> {
    let mut random = random_numbers(order, 0);
    let mut numbers: Vec<u32> = (0..NUMBERS).map(|_| random.u32(..)).collect();
    numbers.sort_unstable();
    numbers
}

/// Three of 100 orders fail once, one of 500 fails until it becomes dead, and one of 1,000 becomes dead immediately.
fn fail_sometimes(order: &Order, context: &Context) -> Result<(), BoxError> {
    match order.number {
        number if number % 1_000 == 150 => Err(JobError::dead(format!("{} has no account", order.customer)).into()),
        number if number % 500 == 75 => Err("the numbers do not add up".into()),
        number if number % 100 < 3 && context.attempt() == 1 => Err("the payment service did not respond".into()),
        _ => Ok(()),
    }
}
