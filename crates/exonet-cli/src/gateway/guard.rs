//! Decides which requests the gateway answers: those that carry the token and that name this machine in `Host`.
//!
//! A page in a browser can make any name resolve to this machine (DNS rebinding) and then read the answers. Its
//! requests carry that name in `Host`. An address in `Host` cannot be rebound.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, StatusCode};

use super::respond::ApiError;
use super::token::Token;

pub(super) struct Guard {
    pub(super) token: Token,
    /// Names of this machine, in lower case.
    pub(super) names: Vec<String>,
}

impl Guard {
    /// Checks a request. `open`: the request needs no token.
    pub(super) fn check(&self, headers: &HeaderMap, open: bool) -> Result<(), ApiError> {
        let one = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let host = one(HOST).unwrap_or_default();
        if !is_for_us(headers, &self.names) {
            return Err(ApiError::new(
                StatusCode::MISDIRECTED_REQUEST,
                "host_not_known",
                format!("Host has no name of this gateway: {host:?}"),
                "use an address or localhost, or start `exon up` with --http-host NAME",
            ));
        }
        if let Some(origin) = one(ORIGIN)
            && origin.strip_prefix("http://").is_none_or(|origin| !origin.eq_ignore_ascii_case(host))
        {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "origin_not_allowed",
                format!("pages of {origin:?} may not use this gateway"),
                "use a program of your own, not a page in a browser",
            ));
        }
        if open || headers.get(AUTHORIZATION).is_some_and(|shown| self.token.is_shown(shown.as_bytes())) {
            return Ok(());
        }
        let path = self.token.path.display();
        let remedy = format!("send the header `Authorization: Bearer TOKEN`, with the token in {path}");
        let missing = headers.get(AUTHORIZATION).is_none();
        let message = if missing { "the request has no token" } else { "this token is wrong" };
        Err(ApiError::unauthorized(message, remedy))
    }
}

/// Whether a request came by an address, by `localhost`, or by one of these names, in lower case.
pub(crate) fn is_for_us(headers: &HeaderMap, names: &[String]) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().map(|host| host.to_str().unwrap_or_default()).unwrap_or_default();
    if hosts.next().is_some() {
        return false;
    }
    if let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.parse::<IpAddr>().is_ok() && is_port(port);
    }
    let (name, port) = host.find(':').map_or((host, ""), |at| host.split_at(at));
    let name = name.to_ascii_lowercase();
    is_port(port) && (name == "localhost" || name.parse::<IpAddr>().is_ok() || names.contains(&name))
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::super::token;
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered_and_no_pages_of_others() {
        let place = tempfile::tempdir().unwrap();
        let token = Token::open(place.path().join(token::FILE)).unwrap();
        let text = std::fs::read_to_string(&token.path).unwrap();
        let guard = Guard { token, names: vec!["box.lan".to_owned()] };
        let ask = |host: Option<&str>, origin: Option<&str>, shown: Option<&str>| {
            let mut headers = HeaderMap::new();
            let mut put = |name, value: Option<&str>| {
                value.map(|value| headers.insert(name, HeaderValue::from_str(value).unwrap()));
            };
            put(HOST, host);
            put(ORIGIN, origin);
            put(AUTHORIZATION, shown);
            guard.check(&headers, false).map_err(|error| error.code)
        };
        let right = format!("Bearer {}", text.trim());
        let right = Some(right.as_str());
        for host in ["127.0.0.1", "127.0.0.1:3967", "[::1]:3967", "localhost:1", "LOCALHOST", "box.lan:3967"]
        {
            assert_eq!(ask(Some(host), None, right), Ok(()), "{host}");
        }
        for host in [
            "evil.example:3967",
            "127.0.0.1.evil.example",
            "localhost:x",
            "[::1",
            "[evil]:1",
            "",
            "box.lan.evil",
        ] {
            assert_eq!(ask(Some(host), None, right), Err("host_not_known"), "{host}");
        }
        assert_eq!(ask(None, None, right), Err("host_not_known"));
        assert_eq!(ask(Some("localhost:1"), Some("http://localhost:1"), right), Ok(()));
        for origin in ["http://localhost:2", "https://localhost:1", "http://evil.example", "null"] {
            assert_eq!(ask(Some("localhost:1"), Some(origin), right), Err("origin_not_allowed"), "{origin}");
        }
        assert_eq!(ask(Some("localhost:1"), None, None), Err("unauthorized"));
        assert_eq!(ask(Some("localhost:1"), None, Some("Bearer guess-guess-guess")), Err("unauthorized"));
    }
}
