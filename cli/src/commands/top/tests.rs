//! Tests what the screen draws, and how keys change it.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::draw;
use super::keys::Effect;
use super::readings::{
    AttemptLine, DeadLine, JobDetail, Overview, QueueDetail, QueueLine, RunningLine, WorkerLine, group_dead,
};
use super::screen::{Answer, Deed, Screen, View};
use super::theme::Theme;

/// Three queues: one that works, one that is paused, one that nobody works for.
fn overview() -> Overview {
    let text = str::to_owned;
    let queues = vec![
        QueueLine {
            name: text("thumbnails"),
            ready: 12_345,
            running: 64,
            scheduled: 7,
            waiting: 120,
            dead: 4,
            workers: 3,
            oldest: Some(Duration::from_secs(95)),
            done_per_s: Some(1_234.4),
            failed_per_s: Some(0.5),
            limits: vec![(text("busy"), 2), (text("claim"), 1)],
            ..QueueLine::default()
        },
        QueueLine {
            name: text("prices"),
            paused: true,
            ready: 2_500_000,
            workers: 1,
            oldest: Some(Duration::from_secs(7_384)),
            done_per_s: Some(0.0),
            failed_per_s: Some(0.0),
            limits: vec![(text("idle"), 1)],
            ..QueueLine::default()
        },
        QueueLine { name: text("a queue with a rather long name, in 日本語"), dead: 1, ..QueueLine::default() },
    ];
    let workers = ["busy", "busy", "claim"].into_iter().enumerate().map(|(number, limit)| WorkerLine {
        id: number.to_string(),
        queue: text("thumbnails"),
        name: format!("node-{number}"),
        lease_left: (number < 2).then_some(Duration::from_secs(28)),
        held: 32,
        held_since: Some(text("11-23 09:15:00")),
        running: Some(8),
        done_per_s: Some(617.2),
        failed_per_s: Some(0.25),
        limited_by: Some(text(limit)),
        in_use: (number == 1).then(|| text("8/8 threads, 3 GiB/8 GiB memory, 1/1 gpu")),
    });
    Overview { queues, workers: workers.collect() }
}

fn detail() -> QueueDetail {
    let dead = |id, kind: &str, error: &str| DeadLine {
        id,
        kind: kind.to_owned(),
        error: error.to_owned(),
        ended: format!("11-23 09:1{id}:00"),
    };
    let dead = vec![
        dead(4, "crop", "no such file"),
        dead(3, "resize", "no such file"),
        dead(2, "resize", "not an image\x1b[2J"),
        dead(1, "resize", "no such file"),
    ];
    let running = (0..9).map(|number| RunningLine {
        id: 100_200 + number,
        kind: "resize".to_owned(),
        attempt: 1,
        since: "11-23 09:20:00".to_owned(),
        worker: "node-0".to_owned(),
        progress: "45% page 9 of 20".to_owned(),
    });
    let error = "the worker has less than the job needs: it needs 100 GiB of memory, the worker has 8 GiB of memory";
    let postponed = vec![format!("3 {error}")];
    QueueDetail { running: running.collect(), dead_read: 4, dead: group_dead(dead), postponed }
}

fn job() -> JobDetail {
    let attempt = |attempt| AttemptLine {
        attempt,
        failed_at: "2026-11-23 09:13:00".to_owned(),
        worker: "node-1".to_owned(),
        run: "35ms".to_owned(),
        error: "no such file\ncaused by: the share is away".to_owned(),
    };
    JobDetail {
        state: "dead".to_owned(),
        fields: vec![("state", "dead".to_owned()), ("kind", "resize".to_owned())],
        error: Some("no such file\ncaused by: the share is away".to_owned()),
        payload: format!("{{\"path\":\"{}\"}}", "a/long/path/".repeat(12)),
        output: None,
        attempts: vec![attempt(1), attempt(2)],
    }
}

/// A screen with something on it, and when that was.
fn screen(colours: bool) -> (Screen, Instant) {
    let now = Instant::now();
    let mut screen = Screen::new("readpast work".to_owned(), Theme::new(colours), now);
    screen.take(Answer::Overview(now, Ok(overview())), now);
    (screen, now)
}

/// The view of the queue thumbnails.
fn queue_screen() -> (Screen, Instant) {
    let (mut screen, now) = screen(false);
    press(&mut screen, &[KeyCode::End, KeyCode::Enter]);
    screen.take(Answer::Queue("thumbnails".to_owned(), Ok(detail())), now);
    (screen, now)
}

/// The view of a dead job of it.
fn job_screen() -> (Screen, Instant) {
    let (mut screen, now) = queue_screen();
    press(&mut screen, &[KeyCode::Down, KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
    screen.take(Answer::Job("thumbnails".to_owned(), 4, Ok(job())), now);
    (screen, now)
}

/// Presses keys; what the last one asks for.
fn press(screen: &mut Screen, keys: &[KeyCode]) -> Effect {
    let mut effect = Effect::None;
    for key in keys {
        effect = screen.press(KeyEvent::new(*key, KeyModifiers::NONE));
    }
    effect
}

fn drawn(screen: &mut Screen, now: Instant, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, screen, now)).unwrap();
    terminal.backend().clone()
}

/// The selection: the text of the reversed lines except the first.
fn selected(screen: &mut Screen, now: Instant) -> String {
    let backend = drawn(screen, now, 80, 24);
    let buffer = backend.buffer();
    let reversed = |y: &u16| buffer[(0, *y)].modifier.contains(ratatui::style::Modifier::REVERSED);
    let lines = (1..24).filter(reversed).map(|y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>());
    lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn queues_are_drawn_in_every_size() {
    let (mut screen, now) = screen(false);
    insta::assert_snapshot!("queues_80x24", drawn(&mut screen, now, 80, 24));
    insta::assert_snapshot!("queues_60x15", drawn(&mut screen, now, 60, 15));
    insta::assert_snapshot!("queues_120x40", drawn(&mut screen, now, 120, 40));
}

#[test]
fn a_queue_and_a_job_are_drawn() {
    let (mut queue, now) = queue_screen();
    insta::assert_snapshot!("queue_80x24", drawn(&mut queue, now, 80, 24));
    insta::assert_snapshot!("queue_120x40", drawn(&mut queue, now, 120, 40));
    let (mut job, now) = job_screen();
    insta::assert_snapshot!("job_80x24", drawn(&mut job, now, 80, 24));
    insta::assert_snapshot!("job_60x15", drawn(&mut job, now, 60, 15));
}

#[test]
fn the_help_says_how_numbers_are_come_by_and_can_be_moved() {
    let (mut screen, now) = screen(false);
    press(&mut screen, &[KeyCode::Char('?')]);
    insta::assert_snapshot!("help_120x40", drawn(&mut screen, now, 120, 40));
    let first = drawn(&mut screen, now, 60, 15).to_string();
    press(&mut screen, &[KeyCode::End]);
    let last = drawn(&mut screen, now, 60, 15).to_string();
    assert!(first.contains("KEYS") && !last.contains("KEYS"), "{last}");
    assert!(last.contains("A monitor sees everything"), "{last}");
    press(&mut screen, &[KeyCode::Char('x')]);
    assert!(drawn(&mut screen, now, 60, 15).to_string().contains("thumbnails"));
}

#[test]
fn no_size_is_too_small_for_any_view() {
    for make in [|| screen(true), queue_screen, job_screen] {
        for help in [false, true] {
            for (width, height) in (0..24).flat_map(|width| (0..14).map(move |height| (width, height))) {
                let (mut screen, now) = make();
                screen.help = help.then_some(3);
                screen.lost = Some("the server is away".to_owned());
                drawn(&mut screen, now, width, height);
            }
        }
    }
}

#[test]
fn without_colours_no_cell_has_one() {
    let colours = |screen: &mut Screen, now| {
        let backend = drawn(screen, now, 80, 24);
        let cells = backend.buffer().content().iter();
        cells.filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    let (mut plain, now) = screen(false);
    plain.lost = Some("away".to_owned());
    assert_eq!(colours(&mut plain, now), 0);
    let (mut coloured, now) = screen(true);
    assert!(colours(&mut coloured, now) > 0);
}

#[test]
fn the_selection_stays_on_its_queue_whatever_the_order() {
    let (mut screen, now) = screen(false);
    assert!(selected(&mut screen, now).starts_with("a queue"));
    press(&mut screen, &[KeyCode::Down]);
    assert!(selected(&mut screen, now).starts_with("prices"));
    // By ready, then by the age of the oldest, out, failures, dead.
    let mut firsts = Vec::new();
    for _ in 0..6 {
        press(&mut screen, &[KeyCode::Char('s')]);
        firsts.push(screen.overview.queues[0].name.split(' ').next().unwrap().to_owned());
        assert!(selected(&mut screen, now).starts_with("prices"));
    }
    assert_eq!(firsts, ["prices", "prices", "thumbnails", "thumbnails", "thumbnails", "a"]);
    let mut without = overview();
    without.queues.remove(1);
    screen.take(Answer::Overview(now, Ok(without)), now);
    assert!(selected(&mut screen, now).starts_with("a queue"));
}

#[test]
fn pause_and_requeue_all_ask_first() {
    let (mut screen, now) = screen(false);
    let (p, r_all) = (KeyCode::Char('p'), KeyCode::Char('R'));
    let (yes, no) = (KeyCode::Char('y'), KeyCode::Char('n'));
    press(&mut screen, &[KeyCode::End]);
    assert_eq!(press(&mut screen, &[p]), Effect::None);
    let asked = drawn(&mut screen, now, 80, 24).to_string();
    assert!(asked.contains("Pause thumbnails? Its jobs are then no longer claimed. y/n"), "{asked}");
    assert_eq!(press(&mut screen, &[no]), Effect::None);
    assert_eq!(press(&mut screen, &[yes]), Effect::None, "nothing more is asked");
    let queue = "thumbnails".to_owned();
    assert_eq!(press(&mut screen, &[p, yes]), Effect::Do(Deed::Pause { queue: queue.clone() }));
    assert_eq!(press(&mut screen, &[r_all, yes]), Effect::Do(Deed::RequeueAll { queue, dead: 4 }));
    let queue = "prices".to_owned();
    assert_eq!(press(&mut screen, &[KeyCode::Up, p, yes]), Effect::Do(Deed::Resume { queue: queue.clone() }));
    assert_eq!(press(&mut screen, &[r_all, yes]), Effect::None, "it has no dead jobs");
}

#[test]
fn a_pause_is_seen_at_once_and_not_undone_by_what_was_read_before() {
    let (mut screen, now) = screen(false);
    press(&mut screen, &[KeyCode::End]);
    let deed = Deed::Pause { queue: "thumbnails".to_owned() };
    let later = now + Duration::from_secs(1);
    screen.take(Answer::Done(deed, Ok("it is".to_owned())), later);
    screen.take(Answer::Overview(now, Ok(overview())), later);
    assert!(selected(&mut screen, later).contains("paused"));
    screen.take(Answer::Overview(later, Ok(overview())), later);
    assert!(!selected(&mut screen, later).contains("paused"));
}

#[test]
fn a_dead_job_or_a_group_is_requeued_after_a_question() {
    let (mut screen, now) = queue_screen();
    let (down, r) = (KeyCode::Down, KeyCode::Char('r'));
    let queue = "thumbnails".to_owned();
    assert_eq!(press(&mut screen, &[r]), Effect::None, "a worker cannot be requeued");
    press(&mut screen, &[down, down, down]);
    assert!(selected(&mut screen, now).starts_with("4 "));
    assert_eq!(press(&mut screen, &[r]), Effect::None);
    let asked = drawn(&mut screen, now, 80, 24).to_string();
    assert!(asked.contains("Requeue job 4 of thumbnails? y/n"), "{asked}");
    // Whatever is read meanwhile, it is this job.
    screen.take(Answer::Queue(queue.clone(), Ok(QueueDetail::default())), now);
    let deed = Deed::Requeue { queue: queue.clone(), jobs: vec![4] };
    assert_eq!(press(&mut screen, &[KeyCode::Char('y')]), Effect::Do(deed));
    screen.take(Answer::Queue(queue.clone(), Ok(detail())), now);
    press(&mut screen, &[KeyCode::Home, down, down, down]);
    press(&mut screen, &[down]);
    assert!(selected(&mut screen, now).starts_with("▸2 jobs"));
    assert_eq!(press(&mut screen, &[r]), Effect::None);
    let deed = Deed::Requeue { queue, jobs: vec![3, 1] };
    assert_eq!(press(&mut screen, &[KeyCode::Char('y')]), Effect::Do(deed));
    // Its jobs come out, and go in again.
    press(&mut screen, &[KeyCode::Enter, down]);
    assert!(selected(&mut screen, now).starts_with("  3 "));
    press(&mut screen, &[KeyCode::Up, KeyCode::Enter, down]);
    assert!(selected(&mut screen, now).starts_with("2 "));
}

#[test]
fn enter_goes_in_and_escape_comes_back_to_the_same_place() {
    let (mut screen, now) = job_screen();
    assert!(matches!(screen.view, View::Job(ref job, _) if job.id == 4));
    assert_eq!(press(&mut screen, &[KeyCode::Esc]), Effect::Look);
    assert!(selected(&mut screen, now).starts_with("4 "));
    press(&mut screen, &[KeyCode::Esc]);
    assert!(selected(&mut screen, now).starts_with("thumbnails"));
    // An answer about a queue that is no longer looked at changes nothing.
    screen.take(Answer::Queue("prices".to_owned(), Ok(detail())), now);
    assert!(matches!(screen.view, View::Queues));
}

#[test]
fn a_lost_connection_is_said_until_the_server_answers_again() {
    let (mut screen, now) = screen(false);
    let later = now + Duration::from_secs(34);
    screen.take(Answer::Overview(later, Err("the connection was lost".to_owned())), later);
    let lost = drawn(&mut screen, later, 80, 24).to_string();
    assert!(lost.contains("no response, retrying; the screen is 34s old: the connection was lost"), "{lost}");
    assert!(lost.contains("thumbnails"), "{lost}");
    screen.take(Answer::Overview(later, Ok(overview())), later);
    let back = drawn(&mut screen, later, 80, 24).to_string();
    assert!(back.contains("as of 0 s ago"), "{back}");
}

#[test]
fn ctrl_c_and_q_quit_from_everywhere() {
    for make in [|| screen(true), queue_screen, job_screen] {
        let (mut screen, _) = make();
        assert_eq!(press(&mut screen, &[KeyCode::Char('q')]), Effect::Quit);
        press(&mut screen, &[KeyCode::Char('p')]);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.press(ctrl_c), Effect::Quit);
    }
}
