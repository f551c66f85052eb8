//! The number of wanted jobs in situations that were hard to get right.

use super::*;
use crate::worker::state::Stage;

/// Not a struct literal, which is possible only in this crate: benches/scale includes this file.
fn changed(change: impl FnOnce(&mut WorkerConfig)) -> WorkerConfig {
    let mut config = WorkerConfig::default();
    change(&mut config);
    config
}

fn ahead(mean_run: Duration, claim: Duration) -> usize {
    let mut demand = Demand::new(&WorkerConfig::default(), 8, Instant::now());
    demand.claimed(claim, Instant::now());
    demand.ahead(RunTimes { jobs: 100, total: mean_run * 100 }, &InFlight::default(), Instant::now())
}

#[test]
fn nothing_is_wanted_ahead_before_a_run_time_is_known() {
    let mut demand = Demand::new(&WorkerConfig::default(), 8, Instant::now());
    assert_eq!(demand.ahead(RunTimes::default(), &InFlight::default(), Instant::now()), 0);
}

#[test]
fn short_jobs_are_wanted_in_full_batches_and_long_jobs_not_at_all() {
    let claim = Duration::from_millis(5);
    assert_eq!(ahead(Duration::from_micros(1), claim), 1_000, "two batches");
    assert_eq!(ahead(Duration::from_millis(10), claim), 120, "0.15 s of 8 threads");
    assert_eq!(ahead(Duration::from_secs(60), claim), 0);
}

#[test]
fn jobs_are_claimed_ahead_for_the_threads_that_the_worker_may_have() {
    let mut demand = Demand::new(&WorkerConfig::default(), 8, Instant::now());
    let seen = RunTimes { jobs: 100, total: Duration::from_secs(1) };
    demand.has_threads(2);
    assert_eq!(demand.ahead(seen, &InFlight::default(), Instant::now()), 30, "0.15 s of 2 threads at 10 ms a job");
    demand.has_threads(8);
    assert_eq!(demand.ahead(seen, &InFlight::default(), Instant::now()), 120);
}

#[test]
fn a_slow_claim_is_covered_twice() {
    assert_eq!(ahead(Duration::from_millis(100), Duration::from_millis(500)), 80);
}

#[test]
fn a_claim_is_made_at_a_quarter_of_what_is_wanted_unless_claims_are_slow() {
    let low_water = |claim_ms: u64| {
        let mut demand = Demand::new(&WorkerConfig::default(), 2, Instant::now());
        demand.claimed(Duration::from_millis(claim_ms), Instant::now());
        let ms = Duration::from_millis(1);
        let ahead = demand.ahead(RunTimes { jobs: 100, total: ms * 100 }, &InFlight::default(), Instant::now());
        (ahead, demand.low_water(ahead))
    };
    assert_eq!(low_water(1), (300, 75));
    assert_eq!(low_water(30), (300, 120));
    assert_eq!(low_water(100), (400, 200));
    assert_eq!(low_water(1_000), (1_000, 500), "a full batch of them is free");
}

#[test]
fn a_prefetcher_that_is_awake_claims_when_half_of_what_is_wanted_is_used_up() {
    let (mut demand, at) = (Demand::new(&WorkerConfig::default(), 2, Instant::now()), Instant::now());
    let seen = RunTimes { jobs: 100, total: Duration::from_secs(1) };
    let mut room = |unstarted| {
        let in_flight = InFlight::default();
        in_flight.enter(Stage::Unstarted, unstarted);
        demand.room(seen, &in_flight, 0, at)
    };
    assert_eq!([room(16), room(15)], [0, 15]);
}

#[test]
fn long_jobs_after_short_ones_lower_the_demand_before_one_of_them_has_ended() {
    let (begun, minute) = (Instant::now(), Duration::from_secs(60));
    let mut demand = Demand::new(&WorkerConfig::default(), 2, begun);
    demand.claimed(Duration::from_millis(1), Instant::now());
    let short = RunTimes { jobs: 1_000, total: Duration::from_millis(1) };
    assert_eq!(demand.ahead(short, &InFlight::default(), begun), 1_000);
    assert_eq!(demand.wanted_at_last(short, 1_000, false, begun + minute), None, "a thread is idle");
    let wanted = demand.wanted_at_last(short, 1_000, true, begun + 2 * minute);
    assert_eq!(wanted, Some(0), "two threads, two jobs, a minute");
    assert_eq!(demand.ahead(short, &InFlight::default(), begun + 2 * minute), 0, "and it stays so while none ends");
}

#[test]
fn after_a_time_without_jobs_what_was_known_of_them_is_forgotten() {
    let begun = Instant::now();
    let mut demand = Demand::new(&WorkerConfig::default(), 2, begun);
    let short = RunTimes { jobs: 1_000, total: Duration::from_millis(1) };
    assert_eq!(demand.ahead(short, &InFlight::default(), begun), 1_000);
    demand.holds_nothing(short, begun);
    assert_eq!(demand.ahead(short, &InFlight::default(), begun), 1_000, "they have just ended");
    let later = begun + Duration::from_secs(60);
    demand.holds_nothing(short, later);
    assert_eq!(demand.ahead(short, &InFlight::default(), later), 0);
}

/// A demand that has seen payloads of this size, may hold 64 MiB, and would like 1,000 jobs ahead.
fn of_payloads(payload: usize) -> Demand {
    let config = changed(|config| config.max_in_flight_bytes = 64 << 20);
    let mut demand = Demand::new(&config, 2, Instant::now());
    demand.claimed_payloads(Some(payload));
    demand.notice(RunTimes { jobs: 10, total: Duration::from_micros(10) }, Instant::now());
    demand
}

#[test]
fn no_more_is_claimed_than_fits_by_the_size_of_those_before() {
    let in_flight = InFlight::default();
    let mut demand = of_payloads(2 << 20);
    let now = Instant::now();
    assert_eq!(demand.jobs_that_fit(&in_flight, now), 32);
    assert_eq!(demand.ahead(demand.seen, &InFlight::default(), Instant::now()), 30, "beside two that run");
    in_flight.enter(Stage::Unstarted, 20);
    in_flight.grow(40 << 20);
    assert_eq!(demand.jobs_that_fit(&in_flight, now), 12);
    in_flight.grow(60 << 20);
    assert_eq!(demand.jobs_that_fit(&in_flight, now), 0);

    let in_flight = InFlight::default();
    assert_eq!(of_payloads(1 << 30).jobs_that_fit(&in_flight, now), 1, "one is always allowed");
    in_flight.enter(Stage::Running, 1);
    in_flight.grow(1 << 30);
    assert_eq!(of_payloads(1 << 30).jobs_that_fit(&in_flight, now), 0);
}

#[test]
fn the_payloads_of_a_claim_fit_into_memory_whatever_came_before() {
    let in_flight = InFlight::default();
    let small = of_payloads(200);
    assert_eq!(small.max_payload_bytes(500, &in_flight), (64 << 20) / 500);
    in_flight.enter(Stage::Running, 1);
    in_flight.grow(60 << 20);
    assert_eq!(small.max_payload_bytes(2, &in_flight), 2 << 20);
    assert_eq!(of_payloads(1 << 30).max_payload_bytes(1, &in_flight), 4 << 20);
    in_flight.grow(60 << 20);
    assert_eq!(small.max_payload_bytes(1, &in_flight), 0);

    let in_flight = InFlight::default();
    assert_eq!(of_payloads(1 << 30).max_payload_bytes(1, &in_flight), 1 << 30, "one is always allowed");
}

#[test]
fn jobs_that_will_leave_large_outputs_count_as_if_they_had() {
    let (demand, now) = (of_payloads(100), Instant::now());
    let in_flight = InFlight::default();
    in_flight.learn_output(4 << 20);
    assert_eq!(demand.jobs_that_fit(&in_flight, now), 16);
    in_flight.enter(Stage::Running, 2);
    in_flight.enter(Stage::Unstarted, 8);
    in_flight.grow(1_000);
    assert_eq!(demand.jobs_that_fit(&in_flight, now), 6);
    in_flight.hold_output(32 << 20);
    assert!(!demand.outputs_are_most(&in_flight));
    in_flight.hold_output(1);
    assert!(demand.outputs_are_most(&in_flight));
}

/// A job of 60 MiB runs, and a thread is idle.
fn holding_much() -> InFlight {
    let in_flight = InFlight::default();
    in_flight.enter(Stage::Running, 1);
    in_flight.grow(60 << 20);
    in_flight
}

/// Claims at most every tenth of a second for `seconds`; each claim finds that the queue's first job does not fit.
/// Returns when it was claimed and how many jobs were asked for.
fn claims_in(seconds: u32, brings_all: bool) -> Vec<(u32, usize)> {
    let (in_flight, mut demand, begun) = (holding_much(), of_payloads(200), Instant::now());
    demand.withheld(Some(10 << 20), false, begun);
    let mut claims = Vec::new();
    for tenth in 0..10 * seconds {
        let at = begun + Duration::from_millis(100) * tenth;
        let room = demand.room(demand.seen, &in_flight, 1, at);
        if room > 0 {
            claims.push((tenth / 10, room));
            demand.claimed(Duration::from_millis(1), at);
            demand.withheld(Some(10 << 20), brings_all, at);
        }
    }
    claims
}

#[test]
fn while_the_first_of_the_queue_does_not_fit_a_worker_looks_once_a_second() {
    let claims = claims_in(1_000, false);
    assert!((900..=1_000).contains(&claims.len()), "{} claims", claims.len());
}

#[test]
fn those_behind_the_first_pass_and_keep_it_waiting_in_turns_that_grow() {
    let claims = claims_in(31, true);
    for (turns, seconds) in [1..3, 3..7, 7..15, 15..31].into_iter().enumerate() {
        let of_turn: Vec<usize> =
            claims.iter().filter(|(second, _)| seconds.contains(second)).map(|(_, room)| *room).collect();
        if turns % 2 == 0 {
            assert!(of_turn.len() > 5 && of_turn.iter().all(|room| *room > 100), "they pass: {of_turn:?}");
        } else {
            assert!(of_turn.iter().all(|room| *room == 1), "the first alone is looked at: {of_turn:?}");
        }
    }
}

#[test]
fn jobs_as_long_as_those_before_pass_the_first_though_few_of_them_fit() {
    const JOB: usize = 4 << 20;
    for fit in 2..16 {
        let (in_flight, mut demand, begun) = (InFlight::default(), of_payloads(JOB), Instant::now());
        in_flight.enter(Stage::Running, 1);
        in_flight.grow((64 << 20) - fit * JOB);
        demand.withheld(Some(64 << 20), false, begun);
        let room = demand.room(demand.seen, &in_flight, 1, begun + LOOK_AGAIN);
        assert_eq!(room, fit, "with the first");
        assert!(demand.max_payload_bytes(room, &in_flight) >= JOB as u64, "{fit} fit");
    }
}

#[test]
fn no_turn_is_longer_than_about_ten_minutes() {
    let begun = Instant::now();
    let first = TooLong { bytes: 1, since: begun, missed_since: None, is_full: false };
    let passes: Vec<bool> = (0..20_000).map(|second| first.lets_pass(begun + Duration::from_secs(second))).collect();
    let turns: Vec<usize> = passes.chunk_by(|one, next| one == next).map(<[bool]>::len).collect();
    assert_eq!(turns[..12], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512, 512]);
    assert_eq!(turns.iter().max(), Some(&512));
}

#[test]
fn the_turns_of_the_first_go_on_though_a_claim_of_a_fleet_does_not_meet_it() {
    let (in_flight, mut demand, begun) = (holding_much(), of_payloads(200), Instant::now());
    let second = |second| begun + Duration::from_secs(second);
    demand.withheld(Some(10 << 20), false, begun);
    demand.withheld(None, false, second(30)); // another worker has it for a moment
    assert!(!demand.lets_pass(&in_flight, second(30)) && demand.room(demand.seen, &in_flight, 1, second(30)) > 1);
    demand.withheld(Some(20 << 20), false, second(31)); // and this is the one behind it
    assert!(demand.lets_pass(&in_flight, second(31)), "the sixth turn, not the first of new ones");
    assert!(!demand.lets_pass(&in_flight, second(63)), "the seventh");

    for missed in [60, 65, 70] {
        demand.withheld(None, false, second(missed));
    }
    demand.withheld(Some(20 << 20), false, second(71));
    assert!(!demand.lets_pass(&in_flight, second(71)) && demand.lets_pass(&in_flight, second(72)), "from the start");
}

#[test]
fn a_job_that_has_got_its_room_leaves_its_turns_to_no_other() {
    let (in_flight, mut demand, begun) = (holding_much(), of_payloads(200), Instant::now());
    let later = begun + Duration::from_secs(31);
    demand.withheld(Some(10 << 20), false, begun);
    demand.claimed_payloads(Some(10 << 20));
    demand.withheld(Some(20 << 20), false, later);
    assert!(!demand.lets_pass(&in_flight, later) && demand.lets_pass(&in_flight, later + LOOK_AGAIN));
}

#[test]
fn one_larger_than_all_that_is_allowed_is_claimed_beside_ended_jobs_whose_rows_are_locked() {
    let (in_flight, mut demand, now) = (InFlight::default(), of_payloads(200), Instant::now());
    in_flight.enter(Stage::AwaitingFinish, 3);
    demand.withheld(Some(1 << 30), false, now);
    assert_eq!(demand.room(demand.seen, &in_flight, 2, now), 1);
    assert_eq!(demand.max_payload_bytes(1, &in_flight), 1 << 30);
    in_flight.grow(1);
    in_flight.hold_output(1);
    assert_eq!(demand.room(demand.seen, &in_flight, 2, now), 0, "an output is held");
}

#[test]
fn the_first_is_claimed_as_soon_as_there_is_room_for_it() {
    let (in_flight, mut demand, now) = (holding_much(), of_payloads(200), Instant::now());
    demand.withheld(Some(10 << 20), false, now);
    assert_eq!(demand.room(demand.seen, &in_flight, 1, now), 0);
    in_flight.shrink(10 << 20);
    let room = demand.room(demand.seen, &in_flight, 1, now);
    assert!(room > 0 && demand.max_payload_bytes(room, &in_flight) >= 10 << 20, "{room}");

    demand.withheld(Some(1 << 30), false, now);
    assert_eq!(demand.room(demand.seen, &in_flight, 1, now), 0);
    in_flight.shrink(50 << 20);
    in_flight.leave(Stage::Running);
    assert_eq!(demand.room(demand.seen, &in_flight, 2, now), 1);
    assert_eq!(demand.max_payload_bytes(1, &in_flight), 1 << 30, "one is always allowed");
    demand.withheld(None, true, now);
    assert!(demand.room(demand.seen, &in_flight, 2, now) > 100, "it is gone");
}

#[test]
fn an_idle_thread_does_not_wait_for_as_much_room_as_one_large_job_took() {
    let (in_flight, mut demand, now) = (InFlight::default(), of_payloads(1 << 30), Instant::now());
    in_flight.enter(Stage::Running, 1);
    demand.claimed(Duration::from_millis(1), now);
    assert_eq!(demand.room(demand.seen, &in_flight, 1, now), 0);
    assert_eq!(demand.room(demand.seen, &in_flight, 0, now + LOOK_AGAIN), 0, "no thread is idle");
    assert_eq!(demand.room(demand.seen, &in_flight, 1, now + LOOK_AGAIN), 1);
}

#[test]
fn an_expected_size_grows_at_once_and_shrinks_slowly() {
    let mut expected = ExpectedBytes(100.0);
    for (seen, next) in [(1_000.0, 1_000.0), (200.0, 800.0), (200.0, 650.0)] {
        expected = expected.and(seen);
        assert_eq!(expected.0, next);
    }
}

#[test]
fn a_fixed_buffer_is_what_is_wanted() {
    let config = changed(|config| config.buffer = 7);
    assert_eq!(
        Demand::new(&config, 8, Instant::now()).ahead(RunTimes::default(), &InFlight::default(), Instant::now()),
        7
    );
}
