//! gRPC as tonic does it: a stream of requests and a stream of answers, over TLS 1.3.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use anyhow::{Context, Result};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::client;
use tonic::codegen::Service;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming, server};

use super::super::contact::grpc::Plain;
use super::super::{Setup, certificate};
use super::Caller;
use crate::app::Answers;

const METHOD: &str = "/lab.Talk/Talk";

/// The method.
#[derive(Clone)]
struct Talk(Answers);

type Pinned<T> = Pin<Box<T>>;
type Said = dyn Stream<Item = Result<Vec<u8>, Status>> + Send;

impl server::StreamingService<Vec<u8>> for Talk {
    type Response = Vec<u8>;
    type ResponseStream = Pinned<Said>;
    type Future = std::future::Ready<Result<Response<Pinned<Said>>, Status>>;

    fn call(&mut self, request: Request<Streaming<Vec<u8>>>) -> Self::Future {
        let answers = self.0.clone();
        let said: Pinned<Said> = Box::pin(request.into_inner().then(move |request| {
            let answers = answers.clone();
            async move {
                let request = request?;
                answers.work(&request).await;
                Ok::<_, Status>(request)
            }
        }));
        std::future::ready(Ok(Response::new(said)))
    }
}

impl Service<tonic::codegen::http::Request<Body>> for Talk {
    type Response = tonic::codegen::http::Response<Body>;
    type Error = Infallible;
    type Future = Pinned<dyn Future<Output = Result<Self::Response, Infallible>> + Send>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::codegen::http::Request<Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move { Ok(server::Grpc::new(Plain).streaming(method, request).await) })
    }
}

/// A stream each way, on a connection that is kept.
struct Open {
    requests: mpsc::UnboundedSender<Vec<u8>>,
    answers: Streaming<Vec<u8>>,
    _client: client::Grpc<Channel>,
}

pub(super) struct Streams {
    endpoint: Endpoint,
    open: Option<Open>,
}

impl Caller for Streams {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let own = certificate::own()?;
        let [certificate, key] = &own.pem;
        let identity = Identity::from_pem(certificate, key);
        let mut server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity))?;
        let incoming = TcpIncoming::bind(setup.listen)?.with_nodelay(Some(true));
        setup.hello(&format!("{} {}", setup.listen, own.hex));
        Ok(server.serve_with_incoming(Talk(answers), incoming).await?)
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        let (address, certificate) = certificate::told(&setup.server)?;
        let roots = certificate::roots(certificate)?;
        let tls = ClientTlsConfig::new().trust_anchors(roots.roots.clone()).domain_name(certificate::NAME);
        let endpoint = Endpoint::from_shared(format!("https://{address}"))?.tls_config(tls)?;
        Ok(Self { endpoint: endpoint.local_address(Some(from.into())), open: None })
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let open = match &mut self.open {
            Some(open) => open,
            empty => {
                let mut client = client::Grpc::new(self.endpoint.connect().await?);
                client.ready().await?;
                let (requests, queue) = mpsc::unbounded_channel();
                let queue = stream::unfold(queue, |mut queue: mpsc::UnboundedReceiver<Vec<u8>>| async move {
                    queue.recv().await.map(|request| (request, queue))
                });
                let path = PathAndQuery::from_static(METHOD);
                let answers = client.streaming(Request::new(queue), path, Plain).await?.into_inner();
                empty.insert(Open { requests, answers, _client: client })
            }
        };
        open.requests.send(request.to_vec())?;
        open.answers.message().await?.context("the server has closed the stream")
    }

    async fn close(self) -> Result<()> {
        std::future::pending().await
    }
}
