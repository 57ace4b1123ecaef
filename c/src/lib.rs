//! The C interface of Exonet. `include/exonet.h` is generated from this crate and is the reference for its users,
//! `docs/c.md` their guide.
//!
//! Data from C is checked in `raw`, which has nearly all the `unsafe` of the crate; `border` keeps panics inside.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(clippy::missing_safety_doc, reason = "the head of the header says what callers owe")]

mod border;
mod call;
mod delivery;
mod event;
mod fault;
mod group;
mod name;
mod node;
mod options;
mod promise;
mod queue;
mod raw;
mod receipt;
mod send;
mod serve;
mod session;
mod stream;
mod text;

use raw::exonet_str;

/// The version of this interface. Functions and fields may be added without a change of it.
pub const EXONET_ABI: u32 = 1;

/// The version of the interface of the library with which the program is linked: EXONET_ABI of its header.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_abi() -> u32 {
    EXONET_ABI
}

/// The version of the library, as in "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn exonet_version() -> exonet_str {
    exonet_str::fixed(concat!(env!("CARGO_PKG_VERSION"), "\0"))
}

/// A text that ends with a NUL, with its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_cstr(text: *const std::ffi::c_char) -> exonet_str {
    // SAFETY: the caller gives NULL, or a text that ends with a NUL.
    unsafe { exonet_str::of_c(text) }
}
