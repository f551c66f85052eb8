//! `readpast top`: shows the queues and workers live, and can pause, resume and requeue.
//!
//! keys ─▶ [`screen`] ─▶ [`draw`]; [`server`] runs alongside, so the screen never waits
//!
//! | file | holds |
//! |---|---|
//! | `readings` | data read from the server |
//! | `server` | requests to the server |
//! | `screen` | the state of the screen |
//! | `keys` | what keys do |
//! | `draw` | draws the screen, a file per view |
//! | `theme` | colours, or none |
//! | `terminal` | the terminal and its keys |

mod draw;
mod keys;
mod readings;
mod screen;
mod server;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use readpast::Config;
use tokio::task::JoinSet;
use tokio::time::{Instant as TokioInstant, MissedTickBehavior};

use crate::connection::Common;
use crate::exit::{Exit, failure};
use crate::interrupt::StopSignals;
use crate::texts;
use keys::Effect;
use screen::{Answer, Deed, Screen, View};
use server::Server;
use terminal::Input;
use theme::Theme;

/// Watch all queues and workers live; pause, resume and requeue.
///
/// Needs a terminal; otherwise use `readpast stats --watch`. `?` explains the keys and numbers.
///
/// Role: operator or monitor; only an operator can change anything.
#[derive(Debug, Args)]
pub struct Top {
    /// How often to read from the server, at least 100ms
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "2s")]
    interval: Duration,
}

/// The shortest interval. More frequent reads would load the server too much.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

fn interval(text: &str) -> Result<Duration, String> {
    let interval = texts::duration(text)?;
    if interval < MIN_INTERVAL { Err("at least 100ms".to_owned()) } else { Ok(interval) }
}

impl Top {
    pub async fn run(self, common: &Common) -> Result<Exit> {
        if !is_possible() {
            let message = "top needs a terminal that can move its cursor; use `readpast stats --watch`";
            return Err(failure(Exit::Usage, message));
        }
        let config = common.config()?;
        let title = format!("readpast {}", config.connection.schema);
        show(config, title, self.interval, None).await?;
        Ok(Exit::Ok)
    }
}

/// Whether the terminal can show the screen.
pub fn is_possible() -> bool {
    terminal::is_usable()
}

/// How often ages are updated.
const CLOCK: Duration = Duration::from_secs(1);

/// Shows the screen until the user quits, or for `limit`. The terminal is always restored.
pub async fn show(config: Config, title: String, interval: Duration, limit: Option<Duration>) -> Result<()> {
    let ends = limit.map(|limit| TokioInstant::now() + limit);
    let mut stop = StopSignals::watch()?;
    // A failure to connect is reported as by other commands.
    let connect = async {
        let server = Server::connect(config).await?;
        let overview = server.overview().await?;
        Ok::<_, readpast::Error>((server, overview))
    };
    let (server, overview) = tokio::select! {
        connected = connect => connected?,
        () = stop.next() => return Ok(()),
        () = at(ends) => return Ok(()),
    };
    let mut screen = Screen::new(title, Theme::of_environment(), Instant::now());
    screen.take(Answer::Overview(Instant::now(), Ok(overview)), Instant::now());

    let mut terminal = terminal::enter()?;
    let mut input = terminal::read_keys();
    let mut asking = Asking::new(server);
    let mut refresh = tokio::time::interval(interval);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut clock = tokio::time::interval(CLOCK);
    loop {
        terminal.draw(|frame| draw::draw(frame, &mut screen, Instant::now()))?;
        tokio::select! {
            key = input.recv() => match key {
                Some(Input::Key(key)) => match screen.press(key) {
                    Effect::None => {}
                    Effect::Quit => return Ok(()),
                    Effect::Look => asking.look(&mut screen),
                    Effect::Do(deed) => asking.carry_out(deed),
                },
                Some(Input::Resized) => terminal.draw_all_anew()?,
                None => return Ok(()), // the terminal is gone
            },
            // A panic in a request ends the program.
            Some(answer) = asking.under_way.join_next() => {
                let answer = answer?;
                let next = asking.ended(&answer);
                screen.take(answer, Instant::now());
                asking.go_on(next, &mut screen);
                if asking.under_way.is_empty() {
                    screen.asking_since = None;
                }
            }
            _ = refresh.tick() => if asking.under_way.is_empty() { asking.look(&mut screen) },
            _ = clock.tick() => {}
            () = stop.next() => return Ok(()),
            () = at(ends) => return Ok(()),
        }
    }
}

/// At this moment, or never.
async fn at(moment: Option<TokioInstant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Requests to the server, which run alongside the screen.
struct Asking {
    server: Server,
    under_way: JoinSet<Answer>,
    overview: Question,
    /// The open queue or job.
    detail: Question,
}

/// A request that runs once at a time, however often a key is pressed.
#[derive(Default)]
struct Question {
    is_asked: bool,
    /// Whether the request was wanted again while it was running.
    is_wanted: bool,
}

/// The requests that follow a response.
struct Next {
    overview: bool,
    detail: bool,
}

impl Question {
    /// Returns whether to send the request now. If it is already running, it is sent again after its response.
    fn want(&mut self) -> bool {
        self.is_wanted = self.is_asked;
        !std::mem::replace(&mut self.is_asked, true)
    }

    /// Records a response. Returns whether to send the request again.
    fn ended(&mut self) -> bool {
        self.is_asked = false;
        std::mem::take(&mut self.is_wanted)
    }
}

impl Asking {
    fn new(server: Server) -> Asking {
        Asking { server, under_way: JoinSet::new(), overview: Question::default(), detail: Question::default() }
    }

    /// Records a response.
    fn ended(&mut self, answer: &Answer) -> Next {
        match answer {
            Answer::Overview(..) => Next { overview: self.overview.ended(), detail: false },
            Answer::Queue(..) | Answer::Job(..) => Next { overview: false, detail: self.detail.ended() },
            Answer::Done(..) => Next { overview: true, detail: true },
        }
    }

    fn go_on(&mut self, next: Next, screen: &mut Screen) {
        if next.overview {
            self.look_at_all(screen);
        }
        if next.detail {
            self.look_at_detail(screen);
        }
    }

    /// Requests all visible data.
    fn look(&mut self, screen: &mut Screen) {
        self.look_at_all(screen);
        self.look_at_detail(screen);
    }

    fn look_at_all(&mut self, screen: &mut Screen) {
        if !self.overview.want() {
            return;
        }
        let (server, asked) = (self.server.clone(), Instant::now());
        self.under_way.spawn(async move {
            Answer::Overview(asked, server.overview().await.map_err(|error| server::words(&error)))
        });
        screen.asking_since.get_or_insert(asked);
    }

    fn look_at_detail(&mut self, screen: &mut Screen) {
        if matches!(screen.view, View::Queues) || screen.queue.is_none() || !self.detail.want() {
            return;
        }
        let server = self.server.clone();
        if let Some(queue) = screen.queue.clone() {
            match &screen.view {
                View::Queues => {}
                View::Queue(_) => {
                    self.under_way.spawn(async move { server.queue_detail(queue).await });
                }
                View::Job(view, _) => {
                    let id = view.id;
                    self.under_way.spawn(async move { server.job_detail(queue, id).await });
                }
            }
        }
        screen.asking_since.get_or_insert_with(Instant::now);
    }

    fn carry_out(&mut self, deed: Deed) {
        let server = self.server.clone();
        self.under_way.spawn(async move { server.carry_out(deed).await });
    }
}
