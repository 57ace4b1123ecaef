//! Connections in TLS, for networks that let nothing else out.

use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
};
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::connection::Connection;
use super::dial::{Dialler, Dialling, LookUp, Tcp};

/// The first byte of a TLS handshake record, with which a TLS connection begins (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;
/// The largest number of bytes that TLS buffers if the connection does not take them: no urgent message can overtake
/// them.
const KEPT: usize = 16_384;

/// Connections in TLS. To a network that inspects traffic, they look like those of a web client.
///
/// A node does not need the certificate of the other end, since the peer proves its id inside of the connection. So a
/// `Tls` accepts any certificate, unless [authorities](Self::authorities) are given, for example because the rules of
/// a network require that.
///
/// ```
/// use exonet::carrier::Tls;
/// use exonet::{Allow, Carrier, Node};
///
/// let tls = Tls::new()?.server_name("chat.example")?;
/// let builder = Node::builder(Allow::anyone()).carrier(Carrier::Tcp).dialler(tls);
/// # let _ = builder;
/// # Ok::<_, std::io::Error>(())
/// ```
pub struct Tls {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
    inner: Box<dyn Dialler>,
}

impl Tls {
    /// A dialler that connects straight to the peer, accepts any certificate, and uses the peer's address as the
    /// server name.
    ///
    /// # Errors
    /// The cryptographic library does not support the settings.
    pub fn new() -> io::Result<Self> {
        let verifier = Arc::new(Any(Arc::new(aws_lc_rs::default_provider())));
        let config = client()?.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Self { config: Arc::new(config), name: None, inner: Box::new(Tcp) })
    }

    /// Opens the connections with `inner`, for example through a proxy.
    #[must_use]
    pub fn over(mut self, inner: impl Dialler) -> Self {
        self.inner = Box::new(inner);
        self
    }

    /// The server name to send to the other end (SNI). Every observer on the path can read it.
    ///
    /// # Errors
    /// The text is not a host name.
    pub fn server_name(mut self, name: &str) -> io::Result<Self> {
        let name = ServerName::try_from(name).map_err(io::Error::other)?.to_owned();
        self.name = Some(name);
        Ok(self)
    }

    /// Accepts only certificates of these authorities, given in PEM.
    ///
    /// # Errors
    /// The text contains no certificate, or one that cannot be read.
    pub fn authorities(mut self, pem: &[u8]) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        if roots.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "there is no certificate in the PEM text",
            ));
        }
        self.config = Arc::new(client()?.with_root_certificates(roots).with_no_client_auth());
        Ok(self)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Dialler for Tls {
    fn dial(&self, to: SocketAddr) -> Dialling<'_> {
        Box::pin(async move {
            let Connection { reader, writer } = self.inner.dial(to).await?;
            let name = self.name.clone().unwrap_or_else(|| ServerName::from(to.ip()));
            let connector = TlsConnector::from(Arc::clone(&self.config));
            let stream = tokio::io::join(reader, writer);
            let stream = connector.connect_with(name, stream, |tls| tls.set_buffer_limit(Some(KEPT)));
            let failed = |error: io::Error| io::Error::new(error.kind(), format!("TLS with {to}: {error}"));
            Ok(Connection::new(stream.await.map_err(failed)?))
        })
    }

    fn look_up(&self, name: &str) -> LookUp {
        self.inner.look_up(name)
    }
}

/// Accepts connections in TLS, at the same port as connections without: see [`Builder::tls`](crate::Builder::tls).
#[derive(Clone)]
pub struct TlsServer(TlsAcceptor);

impl TlsServer {
    /// Makes a self-signed certificate, which is enough for a [`Tls`] without authorities.
    ///
    /// # Errors
    /// The system gives no random numbers for a key.
    pub fn self_signed() -> io::Result<Self> {
        let made =
            rcgen::generate_simple_self_signed([String::from("localhost")]).map_err(io::Error::other)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Self::of(vec![made.cert.der().clone()], key.into())
    }

    /// Uses a certificate chain and a private key, given in PEM.
    ///
    /// # Errors
    /// One of them is missing or cannot be read, or the key does not belong to the certificate.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> io::Result<Self> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(io::Error::other)?;
        Self::of(chain.map_err(io::Error::other)?, key)
    }

    fn of(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> io::Result<Self> {
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
            .map_err(io::Error::other)?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<Connection> {
        let Connection { reader, writer } = Connection::tcp(stream)?;
        let stream = tokio::io::join(reader, writer);
        let stream = self.0.accept_with(stream, |tls| tls.set_buffer_limit(Some(KEPT)));
        Ok(Connection::new(stream.await?))
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").finish_non_exhaustive()
    }
}

/// Whether a connection begins with TLS. A connection without TLS never begins with that byte: its first length would
/// be at least 5,632, which is too long for an opening.
pub(super) async fn is_spoken(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first == [HANDSHAKE])
}

fn client() -> io::Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>> {
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)
}

/// Accepts any certificate, since the node inside of the connection proves its id.
#[derive(Debug)]
struct Any(Arc<CryptoProvider>);

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
