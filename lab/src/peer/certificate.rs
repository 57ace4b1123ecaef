//! The server's certificate, of its own making, which its clients are told.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Whom it names.
pub(super) const NAME: &str = "lab.invalid";

/// A certificate and its key.
pub(super) struct Own {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
    /// The certificate as clients are told it.
    pub(super) hex: String,
    /// Certificate and key as PEM.
    pub(super) pem: [String; 2],
}

pub(super) fn own() -> Result<Own> {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let pem = [own.cert.pem(), own.signing_key.serialize_pem()];
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()).into();
    let certificate = own.cert.der().clone();
    let hex = certificate.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Own { certificate, key, hex, pem })
}

/// The address and the certificate in what a server said of itself.
pub(super) fn told(server: &str) -> Result<(&str, CertificateDer<'static>)> {
    let (address, hex) = server.split_once(' ').context("the server said no certificate")?;
    let bytes =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2).unwrap_or(""), 16));
    Ok((address, CertificateDer::from(bytes.collect::<Result<Vec<u8>, _>>()?)))
}

/// Believes this certificate only.
pub(super) fn roots(certificate: CertificateDer<'static>) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    Ok(Arc::new(roots))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_believed_as_it_was_told() {
        let own = own().unwrap();
        let (address, certificate) = told(&format!("10.0.0.1:1 {}", own.hex))
            .map(|(address, certificate)| (address.to_owned(), certificate))
            .unwrap();
        assert_eq!((address.as_str(), &certificate), ("10.0.0.1:1", &own.certificate));
        assert_eq!(roots(certificate).unwrap().len(), 1);
    }
}
