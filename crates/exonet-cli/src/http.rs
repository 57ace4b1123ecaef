//! A connection of an HTTP client, and its limits.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_io_timeout::TimeoutStream;

/// The longest head of a request, and its maximum number of lines.
const LONGEST_HEAD: usize = 64 << 10;
const HEADERS: usize = 64;
/// The time after which a client that does not read is disconnected, so that another client can have its place.
const WRITE_TIME: Duration = Duration::from_secs(60);

/// Answers the requests of a client with `service`. Ends when the client disconnects, when it takes longer than
/// `silence` for the head of a request or between two requests, or when it does not read the answers.
pub(crate) async fn converse<S, V, B>(stream: S, silence: Duration, service: V)
where
    S: AsyncRead + AsyncWrite,
    V: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .max_buf_size(LONGEST_HEAD)
        .max_header_size(LONGEST_HEAD)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    // An error of the connection does not matter.
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::service::service_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::timeout;

    use super::*;

    /// A long time, on a clock that advances when all tasks are idle.
    const LONG: Duration = Duration::from_secs(3_600);

    async fn serve(stream: impl AsyncRead + AsyncWrite) -> bool {
        let answer = |_| async { Ok(Response::new(Full::new(Bytes::from(vec![b'x'; 64 << 10])))) };
        timeout(LONG, converse(stream, Duration::from_secs(15), service_fn(answer))).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_loses_its_place() {
        let (near, mut far) = duplex(1 << 10);
        far.write_all(&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20)).await.unwrap();
        assert!(serve(near).await, "it holds its place");
        let mut told = Vec::new();
        far.read_to_end(&mut told).await.unwrap();
        assert!(told.starts_with(b"HTTP/1.1 200") && told.len() <= 1 << 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_for_nothing_loses_its_place() {
        for begun in [&b""[..], b"GET / HT"] {
            let (near, mut far) = duplex(1 << 10);
            far.write_all(begun).await.unwrap();
            assert!(serve(near).await, "it holds its place");
        }
    }
}
