//! The header in the repository is that of the sources. `EXONET_WRITE_HEADER=1 cargo test` writes it.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = root.join("src/lib.rs");
    let bindings = cbindgen::Builder::new().with_config(config).with_src(sources).generate().unwrap();
    let mut fresh = Vec::new();
    bindings.write(&mut fresh);
    let (path, fresh) = (root.join("include/exonet.h"), String::from_utf8(fresh).unwrap());
    if std::env::var_os("EXONET_WRITE_HEADER").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == fresh,
        "include/exonet.h is not that of the sources: EXONET_WRITE_HEADER=1 cargo test writes it"
    );
}
