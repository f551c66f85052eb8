//! Tests when logins are sent, and what happens to refused logins.

use std::sync::Arc;

use super::*;
use crate::login::secrets::AccessToken;
use crate::login::standing::PROVED_FOR;

const LIMIT: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);

fn password() -> LoginAttempts {
    let password = Password::Given(Secret::new("p"));
    LoginAttempts::new(Login::Sql { user: Secret::new("u"), password })
}

impl LoginAttempts {
    async fn begin(&self) -> Result<Attempt<'_>, Error> {
        self.attempt(Instant::now() + LIMIT, LIMIT).await
    }

    async fn is_let_in(&self) {
        self.begin().await.unwrap().was_let_in();
    }

    async fn is_refused(&self, number: i32) -> Error {
        self.begin().await.unwrap().was_refused(number, "refused".to_string()).unwrap_err()
    }
}

/// Begins `logins` logins at once; each takes a second, and has the given outcome. Returns how many were sent.
async fn log_in_at_once(credentials: &Arc<LoginAttempts>, logins: usize, are_let_in: bool) -> usize {
    let logging_in: Vec<_> = (0..logins)
        .map(|_| {
            let credentials = credentials.clone();
            tokio::spawn(async move {
                let Ok(attempt) = credentials.begin().await else { return 0 };
                tokio::time::sleep(SECOND).await;
                match are_let_in {
                    true => attempt.was_let_in(),
                    false => assert!(attempt.was_refused(18456, String::new()).is_err()),
                }
                1
            })
        })
        .collect();
    let mut sent = 0;
    for login in logging_in {
        sent += login.await.unwrap();
    }
    sent
}

#[tokio::test(start_paused = true)]
async fn one_connection_tries_what_is_not_proved_and_the_others_wait_for_the_outcome() {
    let credentials = Arc::new(password());
    let began_at = Instant::now();
    assert_eq!(log_in_at_once(&credentials, 10, true).await, 10);
    assert_eq!(began_at.elapsed(), 2 * SECOND, "one, and then the others at once");
    assert_eq!(log_in_at_once(&credentials, 10, true).await, 10);
    assert_eq!(began_at.elapsed(), 3 * SECOND, "it is proved for a while");

    // The machine may have been suspended.
    credentials.clock.shift(PROVED_FOR);
    assert_eq!(log_in_at_once(&credentials, 10, false).await, 1, "it was changed meanwhile");
    assert!(matches!(credentials.begin().await, Err(Error::LoginFailed { number: 18456, .. })));
}

#[tokio::test(start_paused = true)]
async fn a_login_that_hangs_does_not_hold_up_the_others_for_long() {
    let credentials = password();
    let hanging = credentials.begin().await.unwrap();
    let began_at = Instant::now();
    credentials.is_let_in().await;
    assert_eq!(began_at.elapsed(), OUTCOME_WITHIN);
    drop(hanging);
}

#[tokio::test(start_paused = true)]
async fn while_no_outcome_comes_one_more_goes_every_two_seconds() {
    let credentials = Arc::new(password());
    let (hung_up, hangs) = tokio::sync::watch::channel(());
    let began_at = Instant::now();
    let logging_in: Vec<_> = (0..10)
        .map(|_| {
            let (credentials, mut hangs) = (credentials.clone(), hangs.clone());
            tokio::spawn(async move {
                match credentials.begin().await {
                    Ok(attempt) => {
                        let sent_after = began_at.elapsed().as_secs();
                        let _ = hangs.changed().await;
                        drop(attempt);
                        Ok(sent_after)
                    }
                    Err(error) => Err((began_at.elapsed(), error)),
                }
            })
        })
        .collect();
    tokio::time::sleep(LIMIT).await;
    drop(hung_up);
    let mut sent_after = Vec::new();
    for login in logging_in {
        match login.await.unwrap() {
            Ok(after) => sent_after.push(after),
            Err((after, error)) => {
                assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
                assert!(after.abs_diff(LIMIT / 2) < SECOND / 10, "half of the time is left: {after:?}");
            }
        }
    }
    sent_after.sort();
    assert_eq!(sent_after, [0, 2, 4, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_password_that_was_sent_and_given_up_is_not_sent_again_at_once() {
    let credentials = password();
    drop(credentials.begin().await.unwrap());
    let mut attempt = credentials.begin().await.expect("that was not sent");
    attempt.is_sent();
    tokio::time::sleep(SECOND).await;
    drop(attempt);
    assert!(matches!(credentials.begin().await, Err(Error::TimedOut { after: SECOND, .. })));
    tokio::time::sleep(UNANSWERED_FOR - SECOND).await;
    let mut attempt = credentials.begin().await.unwrap();
    attempt.is_sent();
    attempt.is_over();
    drop(attempt);
    credentials.is_let_in().await;
    let mut attempt = credentials.begin().await.unwrap();
    attempt.is_sent();
    drop(attempt);
    assert!(credentials.begin().await.is_ok(), "it is proved");
}

/// Otherwise maintenance, which starts with two seconds per call, would block the heartbeat while logins are slow.
#[tokio::test(start_paused = true)]
async fn who_has_much_more_time_need_not_wait_for_a_login_that_had_too_little() {
    let credentials = password();
    let soon = || Instant::now() + 2 * SECOND;
    let mut attempt = credentials.attempt(soon(), 2 * SECOND).await.unwrap();
    attempt.is_sent();
    tokio::time::sleep(2 * SECOND).await;
    drop(attempt);
    assert!(matches!(credentials.attempt(soon(), 2 * SECOND).await, Err(Error::TimedOut { .. })));
    credentials.is_let_in().await;
}

#[tokio::test(start_paused = true)]
async fn late_words_about_an_older_password_do_not_count() {
    let file = std::env::temp_dir().join(format!("readpast-{}.txt", uuid::Uuid::new_v4()));
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("old");
    let credentials = LoginAttempts::new(Login::Sql { user: Secret::new("u"), password: Password::File(file.clone()) });
    credentials.is_let_in().await;
    let (refused_late, let_in_late) = (credentials.begin().await.unwrap(), credentials.begin().await.unwrap());
    tokio::time::sleep(SECOND).await;
    write("new");
    credentials.is_let_in().await;
    assert!(refused_late.was_refused(18456, String::new()).is_err());
    assert!(credentials.begin().await.unwrap().may_go_with_others());

    credentials.is_refused(18470).await;
    let_in_late.was_let_in();
    assert!(matches!(credentials.begin().await, Err(Error::LoginFailed { number: 18470, .. })));
    std::fs::remove_file(&file).unwrap();
}

/// Returns the times at which logins are sent within a day if each is refused with this error.
async fn refusals(credentials: &LoginAttempts, number: i32) -> Vec<Duration> {
    let began_at = Instant::now();
    let mut sent_after = Vec::new();
    while began_at.elapsed() < Duration::from_secs(24 * 3600) {
        if let Ok(attempt) = credentials.begin().await {
            sent_after.push(began_at.elapsed());
            let _ = attempt.was_refused(number, String::new());
        }
        tokio::time::sleep(SECOND).await;
    }
    sent_after
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_sent_once_more_and_then_seldom() {
    let credentials = password();
    let sent_after = refusals(&credentials, 18456).await;
    let pauses: Vec<_> = sent_after.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= ONCE_MORE_AFTER + SECOND, "{pauses:?}");
    assert!(pauses[1] >= WRONG_PASSWORD_PAUSES.0 / 2, "{pauses:?}");
    assert!(pauses[5..].iter().all(|pause| *pause >= WRONG_PASSWORD_PAUSES.1 / 2), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= WRONG_PASSWORD_PAUSES.1 + SECOND), "{pauses:?}");

    tokio::time::sleep(WRONG_PASSWORD_PAUSES.1).await;
    credentials.is_let_in().await;
    let error = credentials.is_refused(18456).await;
    assert!(!error.is_transient(), "a password in the connection string cannot change");
    tokio::time::sleep(ONCE_MORE_AFTER).await;
    credentials.is_let_in().await;
}

#[tokio::test(start_paused = true)]
async fn a_locked_account_is_tried_every_five_minutes_in_the_end() {
    let sent_after = refusals(&password(), 18486).await;
    let pauses: Vec<_> = sent_after.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= ACCOUNT_PAUSES.0 + SECOND, "{pauses:?}");
    assert!(pauses[5..].iter().all(|pause| *pause >= ACCOUNT_PAUSES.1 / 2), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= ACCOUNT_PAUSES.1 + SECOND), "{pauses:?}");
}

/// The default lease is 30 seconds, and there must be time for a try after the longest pause.
#[tokio::test(start_paused = true)]
async fn what_no_try_locks_is_tried_again_within_seconds_and_by_all_at_once() {
    let credentials = Arc::new(LoginAttempts::new(Login::Integrated));
    let sent_after = refusals(&credentials, 18456).await;
    assert!(sent_after[1] <= OTHER_PAUSES.0 + SECOND);
    assert!(sent_after.windows(2).all(|pair| pair[1] - pair[0] <= OTHER_PAUSES.1 + SECOND));
    tokio::time::sleep(OTHER_PAUSES.1).await;
    assert_eq!(log_in_at_once(&credentials, 10, false).await, 10);
}

#[tokio::test(start_paused = true)]
async fn answers_to_attempts_that_began_before_the_refusal_add_nothing_to_the_pause() {
    let credentials = password();
    credentials.is_let_in().await;
    let mut under_way = Vec::new();
    for _ in 0..10 {
        under_way.push(credentials.begin().await.unwrap());
    }
    for attempt in under_way {
        assert!(attempt.was_refused(18456, String::new()).is_err());
    }
    tokio::time::sleep(ONCE_MORE_AFTER).await;
    credentials.is_let_in().await;
}

/// 18452: the login is from an untrusted domain, or no domain controller could be asked.
#[tokio::test(start_paused = true)]
async fn a_refused_windows_account_is_final_at_the_start_and_passes_later() {
    let credentials = LoginAttempts::new(Login::Integrated);
    assert!(!credentials.is_refused(18452).await.is_transient());
    assert!(!credentials.begin().await.unwrap_err().is_transient(), "within the pause as well");
    tokio::time::sleep(OTHER_PAUSES.0).await;
    credentials.is_let_in().await;
    assert!(credentials.is_refused(18452).await.is_transient());
    assert!(credentials.begin().await.unwrap_err().is_transient(), "within the pause as well");
    tokio::time::sleep(OTHER_PAUSES.0).await;
    credentials.is_let_in().await;
}

#[tokio::test(start_paused = true)]
async fn each_token_that_is_refused_makes_the_pause_longer() {
    let (fetches, fetched) = tokio::sync::watch::channel(0);
    let tokens = TokenSource::new(move || {
        fetches.send_modify(|fetches| *fetches += 1);
        let expires_at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 36);
        let token = AccessToken::new(format!("token {}", *fetches.borrow()), expires_at);
        async move { Ok(token) }
    });
    let credentials = LoginAttempts::new(Login::Own(tokens));
    credentials.is_let_in().await;
    let began_at = Instant::now();
    while began_at.elapsed() < Duration::from_secs(60) {
        if let Ok(attempt) = credentials.begin().await
            && let Err(error) = attempt.was_refused(18456, String::new())
        {
            assert!(error.is_transient());
        }
        tokio::time::sleep(SECOND / 10).await;
    }
    assert!((6..20).contains(&*fetched.borrow()), "{}", *fetched.borrow());
}

#[tokio::test(start_paused = true)]
async fn what_the_number_says_is_the_remedy() {
    for (number, remedy) in [
        (18456, "check User ID and Password"),
        (18470, "ALTER LOGIN [login] ENABLE"),
        (18486, "WITH PASSWORD = '…' UNLOCK"),
        (18487, "WITH PASSWORD"),
        (18488, "WITH PASSWORD"),
    ] {
        let message = password().is_refused(number).await.to_string();
        assert!(message.contains(remedy), "{message}");
    }
}
