//! The commands, one file each.

mod adopt;
mod audit;
mod batches;
mod bench;
mod change;
#[cfg(feature = "dev-server")]
mod demo;
#[cfg(feature = "dev-server")]
mod dev;
mod enqueue;
mod hash_password;
mod health;
mod job;
mod job_log;
mod jobs;
mod prove;
mod queue;
mod queues;
mod schedules;
mod schema;
mod shell;
mod stats;
mod top;
mod wait;
mod web;
mod work;
mod workers;

use anyhow::Result;
use clap::Subcommand;

use crate::connection::Common;
use crate::exit::Exit;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub enum Command {
    Enqueue(enqueue::Enqueue),
    Jobs(jobs::Jobs),
    Job(job::Job),
    Wait(wait::Wait),
    Drain(wait::Drain),
    Requeue(change::Requeue),
    Cancel(change::Cancel),
    Purge(change::Purge),
    Priority(change::Priority),
    Promote(change::Promote),
    Rerun(change::Rerun),
    Skip(change::Skip),
    ConfirmCopy(queue::ConfirmCopy),
    Queues(queues::Queues),
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    Workers(workers::Workers),
    #[command(subcommand)]
    Worker(workers::WorkerCommand),
    Stats(stats::Stats),
    Top(top::Top),
    Schedules(schedules::Schedules),
    #[command(subcommand)]
    Schedule(schedules::ScheduleCommand),
    Batches(batches::Batches),
    #[command(subcommand)]
    Batch(batches::BatchCommand),
    Audit(audit::Audit),
    Adopt(adopt::Adopt),
    Install(schema::Install),
    Upgrade(schema::Upgrade),
    Verify(schema::Verify),
    Uninstall(schema::Uninstall),
    Bench(bench::Bench),
    Prove(prove::Prove),
    #[command(hide = true)]
    ProveWorker(prove::ProveWorker),
    Completions(shell::Completions),
    Man(shell::Man),
    Work(work::Work),
    CheckProgram(work::CheckProgram),
    Web(web::Web),
    HashPassword(hash_password::HashPassword),
    Health(health::Health),
    #[cfg(unix)]
    #[command(hide = true)]
    Guard(work::GuardCommand),
    #[cfg(feature = "dev-server")]
    Demo(demo::Demo),
    #[cfg(feature = "dev-server")]
    Dev(dev::Dev),
}

/// Runs a command. `whole` returns the full command line.
pub async fn run(command: Command, common: &Common, whole: fn() -> clap::Command) -> Result<Exit> {
    let output = Output::new(common.json);
    match command {
        Command::Enqueue(command) => command.run(common, output).await,
        Command::Jobs(command) => command.run(common, output).await,
        Command::Job(command) => command.run(common, output).await,
        Command::Wait(command) => command.run(common, output).await,
        Command::Drain(command) => command.run(common, output).await,
        Command::Requeue(command) => command.run(common, output).await,
        Command::Cancel(command) => command.run(common, output).await,
        Command::Purge(command) => command.run(common, output).await,
        Command::Priority(command) => command.run(common, output).await,
        Command::Promote(command) => command.run(common, output).await,
        Command::Rerun(command) => command.run(common, output).await,
        Command::Skip(command) => command.run(common, output).await,
        Command::ConfirmCopy(command) => command.run(common, output).await,
        Command::Queues(command) => command.run(common, output).await,
        Command::Queue(command) => command.run(common, output).await,
        Command::Workers(command) => command.run(common, output).await,
        Command::Worker(command) => command.run(common, output).await,
        Command::Stats(command) => command.run(common, output).await,
        Command::Top(command) => command.run(common).await,
        Command::Schedules(command) => command.run(common, output).await,
        Command::Schedule(command) => command.run(common, output).await,
        Command::Batches(command) => command.run(common, output).await,
        Command::Batch(command) => command.run(common, output).await,
        Command::Audit(command) => command.run(common, output).await,
        Command::Adopt(command) => command.run(common, output).await,
        Command::Install(command) => command.run(common, output).await,
        Command::Upgrade(command) => command.run(common, output).await,
        Command::Verify(command) => command.run(common, output).await,
        Command::Uninstall(command) => command.run(common, output).await,
        Command::Bench(command) => command.run(common, output).await,
        Command::Prove(command) => command.run(common, output).await,
        Command::ProveWorker(command) => command.run(common).await,
        Command::Completions(command) => command.run(whole()),
        Command::Man(command) => command.run(whole()),
        Command::Work(command) => command.run(common, output).await,
        Command::CheckProgram(command) => command.run(output).await,
        Command::Web(command) => command.run(common, output).await,
        Command::HashPassword(command) => command.run(output).await,
        Command::Health(command) => command.run(output).await,
        #[cfg(unix)]
        Command::Guard(command) => command.run().await,
        #[cfg(feature = "dev-server")]
        Command::Demo(command) => command.run(output).await,
        #[cfg(feature = "dev-server")]
        Command::Dev(command) => command.run(common, output).await,
    }
}
