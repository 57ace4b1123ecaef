//! This code reads and writes the vectors in `conformance/vectors`. They cannot become stale: each is checked here.
//!
//! With `EXONET_WRITE_VECTORS` set, the tests write the files anew instead, for a change of the protocol.

mod codec;
mod datagrams;

use serde_json::Value;

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(value: &Value) -> Vec<u8> {
    let digits = value.as_str().unwrap().as_bytes();
    assert!(digits.len().is_multiple_of(2), "{value}");
    digits.chunks(2).map(|byte| u8::from_str_radix(str::from_utf8(byte).unwrap(), 16).unwrap()).collect()
}

/// The vectors of a file, one per line. If it is asked for, they are first written anew, with `fresh`.
fn vectors(name: &str, fresh: impl FnOnce() -> Vec<Value>) -> Vec<Value> {
    let path = format!("{}/../../conformance/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("EXONET_WRITE_VECTORS").is_some() {
        let lines: Vec<_> = fresh().iter().map(Value::to_string).collect();
        std::fs::write(&path, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}
