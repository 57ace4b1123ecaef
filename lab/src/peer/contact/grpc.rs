//! gRPC as tonic does it: unary calls of bytes, over TLS 1.3.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use anyhow::Result;
use bytes::{Buf, BufMut};
use tonic::body::Body;
use tonic::client;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::Service;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, server};

use super::super::{Setup, certificate};
use super::Caller;
use crate::app::Answers;

const METHOD: &str = "/lab.Echo/Call";

/// Messages are bytes, as they are.
#[derive(Clone, Copy)]
pub(in crate::peer) struct Plain;

impl Codec for Plain {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; from.remaining()];
        from.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}

/// The method.
#[derive(Clone)]
struct Echo(Answers);

impl server::UnaryService<Vec<u8>> for Echo {
    type Response = Vec<u8>;
    type Future = Ready<Result<Response<Vec<u8>>, Status>>;

    fn call(&mut self, request: Request<Vec<u8>>) -> Self::Future {
        let message = request.into_inner();
        self.0.note(&message);
        ready(Ok(Response::new(message)))
    }
}

impl Service<tonic::codegen::http::Request<Body>> for Echo {
    type Response = tonic::codegen::http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::codegen::http::Request<Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move { Ok(server::Grpc::new(Plain).unary(method, request).await) })
    }
}

pub(super) struct Grpc {
    endpoint: Endpoint,
    client: Option<client::Grpc<Channel>>,
}

impl Caller for Grpc {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let own = certificate::own()?;
        let [certificate, key] = &own.pem;
        let identity = Identity::from_pem(certificate, key);
        let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity))?;
        let incoming = TcpIncoming::bind(setup.listen)?.with_nodelay(Some(true));
        setup.hello(&format!("{} {}", setup.listen, own.hex));
        Ok(server.serve_with_incoming(Echo(answers), incoming).await?)
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        let (address, certificate) = certificate::told(&setup.server)?;
        let roots = certificate::roots(certificate)?;
        let tls = ClientTlsConfig::new().trust_anchors(roots.roots.clone()).domain_name(certificate::NAME);
        let endpoint = Endpoint::from_shared(format!("https://{address}"))?.tls_config(tls)?;
        let endpoint = endpoint.local_address(Some(from.into()));
        Ok(Self { endpoint, client: None })
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let client = match &mut self.client {
            Some(client) => client,
            empty => empty.insert(client::Grpc::new(self.endpoint.connect().await?)),
        };
        client.ready().await?;
        let request = Request::new(request.to_vec());
        Ok(client.unary(request, PathAndQuery::from_static(METHOD), Plain).await?.into_inner())
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}
