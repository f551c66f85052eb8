//! The page as a server of its own.

use std::future::Future;
use std::io;

use readpast::Queue;
use tokio::net::TcpListener;

use crate::app::App;
use crate::options::{Access, Options};
use crate::routes::routes;

/// Serves the page at an address until `end`: then what is being answered is answered, the live parts end, and what is
/// being done to many jobs stops. Its end is noted in the audit, which is waited for at most ten seconds.
///
/// # Errors
///
/// What the listener says; [`io::ErrorKind::InvalidInput`] for [`Access::Local`] on an address that others can reach.
pub async fn serve(
    listener: TcpListener,
    queue: Queue,
    options: Options,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if matches!(options.access, Access::Local) && !address.ip().is_loopback() {
        let message = format!("on {address} others can reach the page: set Options::access");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let app = App::new(queue, options);
    let (router, ending) = (routes(app.clone()), app.clone());
    let ended = async move {
        end.await;
        ending.readings.end();
        ending.operations.end();
    };
    let served = axum::serve(listener, router).with_graceful_shutdown(ended).await;
    app.operations.ended().await;
    served
}
