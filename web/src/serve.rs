//! The page as a server of its own.

use std::future::Future;
use std::io;

use readpast::Queue;
use tokio::net::TcpListener;

use crate::app::App;
use crate::options::Options;

/// Serves the page at an address until `end`: then what is being answered is answered, and the live parts end.
///
/// # Errors
///
/// What the listener says.
pub async fn serve(
    listener: TcpListener,
    queue: Queue,
    options: Options,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let app = App::new(queue, options);
    let router = crate::routes(app.clone());
    let ended = async move {
        end.await;
        app.readings.end();
    };
    axum::serve(listener, router).with_graceful_shutdown(ended).await
}
