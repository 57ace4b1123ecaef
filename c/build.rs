//! Names the library as the loader looks for it: programs are bound to a version of the interface, not to a file.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // As `EXONET_ABI` in src/lib.rs says.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libexonet.so.1");
    }
}
