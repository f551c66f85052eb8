//! Where a worker's settings come from: the configuration that its queue was connected with, a section of the program's
//! own file among them, or the builder.

use readpast::{Config, Handlers, Worker};

use crate::support::{Fixture, changed, text};

/// The name that a worker of the fixture's queue has registered with.
async fn registered_as(fixture: &Fixture) -> Option<String> {
    let rows = fixture.sql("SELECT TOP (1) name FROM [$(schema)].[workers] ORDER BY registered_at DESC").await;
    text(&rows[0], "name")
}

#[tokio::test]
async fn a_worker_has_the_settings_its_queue_was_connected_with_unless_it_is_given_others() {
    let mut fixture = Fixture::new("settings").await;
    let file = "greeting = 'hello'\n[queue.worker]\nname = 'of the file'\nthreads = 1\n";
    fixture.config.worker = Config::from_section(file, "queue").unwrap().worker;
    let queue = fixture.connect().await;
    let builder = || Worker::builder(&queue, Handlers::any(|_, _| Ok(())));
    let worker = builder().start().await.unwrap();
    assert_eq!(registered_as(&fixture).await.as_deref(), Some("of the file"));
    worker.drain().await.unwrap();
    let others = changed(fixture.config.worker.clone(), |worker| worker.name = "of the builder".to_string());
    let worker = builder().config(&others).start().await.unwrap();
    assert_eq!(registered_as(&fixture).await.as_deref(), Some("of the builder"));
    worker.drain().await.unwrap();
    drop(queue);
    fixture.remove().await;
}
