//! The gateway of `exon up`, by HTTP as it is on the wire.

mod answers;
mod calls;
mod described;
mod doors;
mod inbox;
mod page;
mod sent;
mod watch;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Running, World};

/// Longer than anything here takes.
const HANG: Duration = Duration::from_secs(60);

/// A node with a gateway.
pub(crate) struct Gateway {
    pub(crate) up: Running,
    pub(crate) peer: String,
    /// Its address and port.
    pub(crate) at: String,
    token: String,
}

/// What was answered.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Told {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// Fails unless it has this status.
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}{}", self.head, String::from_utf8_lossy(&self.body));
        self
    }

    /// The code of an error.
    pub(crate) fn code(&self) -> String {
        let told = self.json();
        let error = &told["error"];
        assert!(error["message"].is_string() && error["remedy"].is_string(), "{told}");
        error["code"].as_str().unwrap().to_owned()
    }
}

impl World {
    /// A node of this identity with a gateway.
    pub(crate) fn gateway(&self, identity: &str, args: &[&str]) -> Gateway {
        self.gateway_at("127.0.0.1:0", identity, args)
    }

    pub(crate) fn gateway_at(&self, bind: &str, identity: &str, args: &[&str]) -> Gateway {
        let fixed = ["up", "--as", identity, "--json", "--bind", bind, "--http", "127.0.0.1:0"];
        let mut up = Running::start(self.command(&[&fixed, args].concat()));
        let first = up.line().expect("it says where it is");
        let said = |name: &str| first[name].as_str().unwrap_or_else(|| panic!("{first}")).to_owned();
        let at = said("http").strip_prefix("http://").unwrap().to_owned();
        let token = std::fs::read_to_string(said("http_token")).unwrap().trim().to_owned();
        Gateway { up, peer: said("peer"), at, token }
    }
}

impl Gateway {
    /// Begins a request: what is answered is still to be read.
    pub(crate) fn begin(&self, way: &str, path: &str, headers: &str, body: &[u8]) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let (at, length) = (&self.at, body.len());
        let head = format!(
            "{way} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // One that is refused at once may not be read.
        let _ = stream.write_all(body);
        BufReader::new(stream)
    }

    fn shown(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }

    /// Begins a request that shows the token.
    pub(crate) fn open(&self, path: &str) -> BufReader<TcpStream> {
        self.begin("GET", path, &self.shown(), b"")
    }

    pub(crate) fn ask(&self, way: &str, path: &str, headers: &str, body: &[u8]) -> Told {
        let told = read(&mut self.begin(way, path, headers, body));
        described::check(way, path, &told);
        told
    }

    pub(crate) fn get(&self, path: &str) -> Told {
        self.ask("GET", path, &self.shown(), b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Told {
        let told = read(&mut self.begin_post(path, body));
        described::check("POST", path, &told);
        told
    }

    /// As [`Self::post`]: what is answered is still to be read.
    pub(crate) fn begin_post(&self, path: &str, body: &Value) -> BufReader<TcpStream> {
        let headers = format!("{}Content-Type: application/json\r\n", self.shown());
        self.begin("POST", path, &headers, body.to_string().as_bytes())
    }

    /// The next message, of which there is one.
    pub(crate) fn message(&self, query: &str) -> Value {
        let told = self.get(&format!("/v1/inbox?wait_ms=60000&{query}")).expect(200).json();
        let messages = told["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 1, "{told}");
        messages[0].clone()
    }
}

/// The whole of an answer whose end is that of its connection.
fn read(stream: &mut BufReader<TcpStream>) -> Told {
    let (head, status) = head(stream);
    let mut body = Vec::new();
    // A connection whose request was not read to its end is reset behind the answer.
    let _ = stream.read_to_end(&mut body);
    Told { status, head, body }
}

/// The head of an answer, and its status.
fn head(stream: &mut BufReader<TcpStream>) -> (String, u16) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "the head ends early: {head}");
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (head.clone(), status.unwrap_or_else(|| panic!("{head}")))
}

/// The data of the next event of this name.
fn event(stream: &mut BufReader<TcpStream>, name: &str) -> Value {
    let mut seen = false;
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "no {name}");
        if let Some(data) = line.strip_prefix("data: ").filter(|_| seen) {
            return serde_json::from_str(data).unwrap();
        }
        seen |= line.trim() == format!("event: {name}");
    }
}
