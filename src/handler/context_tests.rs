//! What a handler sees of its run.

use std::sync::mpsc;

use rayon::prelude::*;

use super::*;
use crate::id::JobId;
use crate::job::NewJob;

fn context() -> Context {
    Context::for_test(Job::for_test(NewJob::text("")))
}

#[test]
fn a_context_is_cancelled_by_each_of_its_four_reasons() {
    assert!(!context().is_cancelled() && !context().is_stopping());
    let lost = context().cancelled();
    assert!(lost.is_cancelled() && lost.is_lease_lost() && !lost.is_stopping_now());
    assert!(context().time_limit(Duration::ZERO).is_cancelled());
    let asked = context();
    let (job_id, fence) = (asked.job.id(), asked.job.fence());
    asked.cancellations.ask(JobId(job_id.0 + 1), fence);
    assert!(!asked.is_cancelled(), "another job");
    asked.cancellations.ask(job_id, fence);
    assert!(asked.is_cancelled() && !asked.is_stopping() && !asked.is_lease_lost());
    assert!(!context().time_limit(Duration::from_secs(60)).is_cancelled());
    assert!(!context().time_limit(Duration::MAX).is_cancelled());
    let stopping_now = context();
    stopping_now.surroundings.stopping_now.set();
    assert!(stopping_now.is_cancelled() && stopping_now.is_stopping() && stopping_now.is_stopping_now());
}

#[test]
fn a_job_that_may_end_is_stopping_and_not_cancelled() {
    let context = context().stopping();
    assert!(context.is_stopping() && !context.is_cancelled());
}

async fn timer_task_and_socket() -> u32 {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connected = tokio::spawn(async move { tokio::net::TcpStream::connect(address).await.is_ok() });
    listener.accept().await.unwrap();
    u32::from(connected.await.unwrap())
}

#[test]
fn a_future_has_timers_tasks_and_sockets() {
    assert_eq!(context().block_on(timer_task_and_socket()), 1);
}

/// The situation of a thread that waits in `par_iter` inside a call, and meanwhile runs another job, which makes
/// its own call.
#[test]
fn a_call_inside_a_call_ends_too_on_a_pool_with_fewer_threads_than_calls() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let context = context();
    let ended = pool.install(|| {
        let calls = (0..8).into_par_iter().map(|_| {
            context.block_on(async {
                let inside = || context.block_on(timer_task_and_socket());
                let (one, other) = rayon::join(inside, inside);
                one + other + timer_task_and_socket().await
            })
        });
        calls.sum::<u32>()
    });
    assert_eq!(ended, 24);
}

/// The program's runtime has one thread, which waits for the handler.
#[tokio::test]
async fn a_runtime_that_the_program_blocks_holds_no_call_up() {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(context().block_on(timer_task_and_socket())));
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(1));
}

#[tokio::test]
async fn the_last_context_may_go_inside_of_a_runtime() {
    let context = std::thread::spawn(|| {
        let context = context();
        context.block_on(timer_task_and_socket());
        context
    });
    drop(context.join().unwrap()); // a runtime that waited for its threads would panic here
}

#[test]
fn a_test_s_state_wins_over_that_of_the_handlers() {
    let handlers = crate::handler::Handlers::any(|_, context| {
        Ok(crate::handler::Output::bytes(format!("{} {}", context.state::<&str>(), context.state::<u8>())))
    });
    let handlers = handlers.state("the handlers'").state(1_u8);
    let context = Context::for_test(Job::for_test(NewJob::text(""))).with_state("the test's");
    let outcome = handlers.run_for_test(context);
    assert_eq!(outcome, crate::job::Outcome::Done { output: Some(b"the test's 1".to_vec()), follow_ups: vec![] });
}
