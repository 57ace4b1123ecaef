//! Metrics of a node for Prometheus, in its text format 0.0.4.
//!
//! The counts and levels come from the lists of the library's statistics: [`Stats::FIGURES`](exonet::stats::Stats::FIGURES) and
//! [`PeerStats::FIGURES`](exonet::stats::PeerStats::FIGURES). The durations come from its recorder of metrics ([`times`]).

mod labelled;
mod text;
mod times;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet::Node;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use self::labelled::Labelled;
use self::times::Times;
use crate::args::MetricsArgs;
use crate::failure::Failure;
use crate::http;
use crate::settings::Settings;

/// The maximum number of connections at once; further ones wait in the operating system.
const CONNECTIONS: usize = 16;
/// The longest silence of a client: some scrapers ask once a minute.
const SILENCE: Duration = Duration::from_secs(90);
/// The pause before another `accept` after one has failed.
const PAUSE: Duration = Duration::from_millis(100);
const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The endpoint that serves figures.
pub(crate) struct Metrics {
    desk: Arc<Desk>,
    /// The URL for Prometheus.
    pub(crate) url: String,
}

/// The state that requests share.
struct Desk {
    node: Mutex<Option<Node>>,
    labelled: Mutex<Labelled>,
    times: &'static [Times],
    started: Instant,
    identity: String,
    command: &'static str,
    /// Whether only programs of this machine can reach it.
    is_local: bool,
}

/// A node whose figures are served until this is dropped.
pub(crate) struct Watched(Arc<Desk>);

impl Drop for Watched {
    fn drop(&mut self) {
        *self.0.node.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Metrics {
    /// Listens. The caller calls this before it makes the node, since a node reports durations to the recorder that
    /// was installed before. None: the user wants no metrics.
    pub(crate) async fn open(
        settings: &Settings,
        args: &MetricsArgs,
        command: &'static str,
    ) -> Result<Option<Self>, Failure> {
        let Some(address) = args.metrics else { return Ok(None) };
        let listener = crate::gateway::bind(address, "--metrics").await?;
        let local =
            listener.local_addr().map_err(|e| Failure::new("the listener has no address").because(&e))?;
        let desk = Arc::new(Desk {
            node: Mutex::default(),
            labelled: Mutex::default(),
            times: times::record(),
            started: Instant::now(),
            identity: settings.identity.to_string(),
            command,
            is_local: local.ip().is_loopback(),
        });
        let url = format!("http://{local}/metrics");
        settings.note(format!("metrics for Prometheus at {url}"));
        tokio::spawn(serve(listener, Arc::clone(&desk)));
        Ok(Some(Self { desk, url }))
    }

    /// Serves the metrics of this node from now on.
    pub(crate) fn watch(&self, node: &Node) -> Watched {
        *self.desk.node.lock().unwrap_or_else(PoisonError::into_inner) = Some(node.clone());
        Watched(Arc::clone(&self.desk))
    }
}

async fn serve(listener: TcpListener, desk: Arc<Desk>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn({
                let desk = Arc::clone(&desk);
                async move {
                    converse(stream, desk).await;
                    drop(place);
                }
            })),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn converse(stream: TcpStream, desk: Arc<Desk>) {
    let service = service_fn(move |request| {
        let answer = answer(&desk, &request);
        async move { Ok::<_, Infallible>(answer) }
    });
    http::converse(stream, SILENCE, service).await;
}

fn answer(desk: &Desk, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let plain = |status, text: String| {
        let mut response = Response::new(Full::new(text.into()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
        response
    };
    // A page in a browser may make a name of its own resolve to this address (DNS rebinding), and then read the
    // answers.
    let headers = request.headers();
    if desk.is_local && headers.contains_key(HOST) && !crate::gateway::is_for_us(headers, &[]) {
        return plain(StatusCode::MISDIRECTED_REQUEST, "use an address, or localhost\n".to_owned());
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "the only path is /metrics\n".to_owned());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n".to_owned());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let node = desk.node.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match node {
        Some(node) => plain(StatusCode::OK, text::of(desk, &node)),
        None => plain(StatusCode::SERVICE_UNAVAILABLE, "no node runs now\n".to_owned()),
    }
}

/// The URL of `--metrics`, for lines of JSON.
pub(crate) fn url(metrics: Option<&Metrics>) -> Option<String> {
    metrics.map(|metrics| metrics.url.clone())
}
