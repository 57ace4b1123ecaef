//! Finds the peers that are libraries of the system. Those that are not there are left out, and `lab list` says so.

use std::path::Path;

fn main() {
    for name in ["enet", "sctp", "udt", "zmq"] {
        println!("cargo:rustc-check-cfg=cfg(has_{name})");
    }
    println!("cargo:rerun-if-changed=src/peer/shim");
    let probe = |name: &str| pkg_config::Config::new().probe(name).is_ok();
    if probe("libzmq") {
        println!("cargo:rustc-cfg=has_zmq");
    }
    if probe("libenet") {
        shim("enet", "c");
    }
    if probe("usrsctp") {
        shim("sctp", "c");
    }
    // UDT has no description for pkg-config.
    if ["/usr/include/udt/udt.h", "/usr/local/include/udt/udt.h"].iter().any(|path| Path::new(path).exists())
    {
        shim("udt", "cpp");
        println!("cargo:rustc-link-lib=udt");
    }
}

/// Compiles what makes the library's interface plain enough to be called.
fn shim(name: &str, language: &str) {
    let mut build = cc::Build::new();
    build.cpp(language == "cpp").file(format!("src/peer/shim/{name}.{language}")).warnings(true);
    if build.try_compile(&format!("shim_{name}")).is_ok() {
        println!("cargo:rustc-cfg=has_{name}");
    } else {
        println!("cargo:warning=the headers of {name} are there, but cannot be used");
    }
}
