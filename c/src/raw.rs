//! Conversion of data from C to Rust. The claims that cannot be checked are trusted here; everything else is checked.

use std::ffi::{CStr, CString, c_char};
use std::{ptr, slice};

use bytes::Bytes;

use crate::fault::Fault;

/// A text in UTF-8. Its data may be NULL if its length is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct exonet_str {
    /// The text.
    data: *const c_char,
    /// Its length in bytes.
    len: usize,
}

/// Bytes. Their data may be NULL if their length is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct exonet_bytes {
    /// The bytes.
    data: *const u8,
    /// Their number.
    len: usize,
}

impl exonet_str {
    /// An empty text, whose pointer is valid.
    pub(crate) const fn empty() -> Self {
        Self { data: c"".as_ptr(), len: 0 }
    }

    /// A text that ends with a NUL, which is not counted.
    pub(crate) const fn fixed(text: &'static str) -> Self {
        Self { data: text.as_ptr().cast(), len: text.len().saturating_sub(1) }
    }

    /// A text that is valid as long as `text`, which is followed by a NUL.
    pub(crate) const fn lend(text: &str) -> Self {
        Self { data: text.as_ptr().cast(), len: text.len() }
    }

    /// A text from C.
    ///
    /// # Safety
    /// It is NULL, or ends with a NUL.
    pub(crate) unsafe fn of_c(text: *const c_char) -> Self {
        if text.is_null() {
            return Self::empty();
        }
        // SAFETY: as above.
        let len = unsafe { CStr::from_ptr(text) }.count_bytes();
        Self { data: text, len }
    }

    /// The text, for the duration of a call.
    pub(crate) fn get(&self, name: &str) -> Result<&str, Fault> {
        let bytes = exonet_bytes { data: self.data.cast(), len: self.len };
        // SAFETY: the slice lives as long as `self`, of which `bytes` is a copy.
        let bytes = unsafe { bytes.slice(name) }?;
        str::from_utf8(bytes).map_err(|error| {
            Fault::usage(format!("{name} is not UTF-8: byte {} is wrong", error.valid_up_to()))
        })
    }

    /// The bytes of a copy of the text, which no longer depends on the caller's memory.
    pub(crate) fn copy(&self, name: &str) -> Result<Bytes, Fault> {
        self.get(name).map(|text| Bytes::copy_from_slice(text.as_bytes()))
    }

    /// The text; None if it is empty.
    pub(crate) fn given(&self, name: &str) -> Result<Option<&str>, Fault> {
        let text = self.get(name)?;
        Ok(if text.is_empty() { None } else { Some(text) })
    }
}

impl exonet_bytes {
    /// No bytes.
    pub(crate) const fn empty() -> Self {
        Self { data: c"".as_ptr().cast(), len: 0 }
    }

    /// Bytes that are valid as long as `bytes`.
    pub(crate) const fn lend(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self { data: bytes.as_ptr(), len: bytes.len() } }
    }

    /// A copy, which no longer depends on the caller's memory.
    pub(crate) fn copy(&self, name: &str) -> Result<Bytes, Fault> {
        // SAFETY: the slice is copied before the call ends.
        unsafe { self.slice(name) }.map(Bytes::copy_from_slice)
    }

    /// The bytes.
    ///
    /// # Safety
    /// They are used only during the call from C for which they were given. The caller has promised that there are
    /// `len` of them: the fields are private, so that only C makes values that are not made here.
    unsafe fn slice<'a>(&self, name: &str) -> Result<&'a [u8], Fault> {
        match (self.data.is_null(), self.len) {
            (_, 0) => Ok(&[]),
            (true, len) => Err(Fault::usage(format!("{name} is NULL, but is said to have {len} bytes"))),
            (false, len) if isize::try_from(len).is_err() => {
                Err(Fault::usage(format!("{name} is said to have {len} bytes: more than there can be")))
            }
            // SAFETY: as above.
            (false, len) => Ok(unsafe { slice::from_raw_parts(self.data, len) }),
        }
    }
}

/// Texts that a caller has one after the other.
///
/// # Safety
/// There are `count` of them at `texts`. They are used only during the call from C for which they were given.
pub(crate) unsafe fn texts<'a>(
    texts: *const exonet_str,
    count: usize,
    name: &str,
) -> Result<&'a [exonet_str], Fault> {
    match (texts.is_null(), count.checked_mul(size_of::<exonet_str>()).map(isize::try_from)) {
        (_, Some(Ok(0))) => Ok(&[]),
        (true, _) => Err(Fault::usage(format!("{name} is NULL, but is said to have {count} texts"))),
        // SAFETY: as above.
        (false, Some(Ok(_))) => Ok(unsafe { slice::from_raw_parts(texts, count) }),
        (false, _) => {
            Err(Fault::usage(format!("{name} is said to have {count} texts: more than there can be")))
        }
    }
}

/// Writes values to a place of the caller, as many as there is room for.
///
/// # Safety
/// There is room for `room` values at `place`.
pub(crate) unsafe fn fill<T: Copy>(
    place: *mut T,
    room: usize,
    values: impl Iterator<Item = T>,
    name: &str,
) -> Result<(), Fault> {
    if place.is_null() && room > 0 {
        return Err(Fault::usage(format!("{name} is NULL, but is said to have room for {room}")));
    }
    for (at, value) in values.take(room).enumerate() {
        // SAFETY: `at` is below `room`, for which there is room.
        unsafe { place.add(at).write(value) };
    }
    Ok(())
}

/// A text that C owns from now on.
pub(crate) fn give_text(text: &str) -> *mut c_char {
    // For C, a text ends at its first NUL.
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default().into_raw()
}

/// Frees a text of [`give_text`].
///
/// # Safety
/// It is NULL, or from [`give_text`], and is given back only once.
pub(crate) unsafe fn take_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: as above.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Options: a struct that begins with its size, and is valid if all bytes are zero.
///
/// # Safety
/// It is `repr(C)`, its first field is a `usize`, and it is valid if all bytes are zero.
pub(crate) unsafe trait Options: Sized {}

/// The largest size of options, in bytes.
const LARGEST: usize = 4_096;

/// The options from a caller: NULL, or those of an older or newer version.
///
/// # Safety
/// `given` is NULL, or points to as many bytes as the `usize` at its start says.
pub(crate) unsafe fn options<T: Options>(given: *const T, name: &str) -> Result<T, Fault> {
    // SAFETY: it is valid if all bytes are zero, as `Options` requires.
    let mut options: T = unsafe { std::mem::zeroed() };
    if given.is_null() {
        return Ok(options);
    }
    // SAFETY: the size is the first field.
    let size = unsafe { given.cast::<usize>().read() };
    if !(size_of::<usize>()..=LARGEST).contains(&size) {
        return Err(Fault::usage(format!("{name}->size is {size}: it must be sizeof *{name}")));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: the caller has `size` bytes, and `T` has room for the bytes that are copied.
    unsafe { ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut options).cast::<u8>(), known) };
    // SAFETY: these are the remaining bytes of the `size` bytes that the caller has.
    let rest = unsafe { slice::from_raw_parts(given.cast::<u8>().add(known), size - known) };
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Fault::usage(format!("{name} sets what this version of the library does not know")));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Old {
        size: usize,
        a: u64,
    }
    #[repr(C)]
    struct New {
        size: usize,
        a: u64,
        b: u64,
    }
    // SAFETY: the struct is `repr(C)`, begins with its size, and is valid if all bytes are zero.
    unsafe impl Options for Old {}
    // SAFETY: the struct is `repr(C)`, begins with its size, and is valid if all bytes are zero.
    unsafe impl Options for New {}

    #[test]
    fn options_of_older_and_newer_programs_are_understood() {
        let old = Old { size: size_of::<Old>(), a: 7 };
        // SAFETY: the struct begins with its own size.
        let new = unsafe { options((&raw const old).cast::<New>(), "options") }.unwrap();
        assert_eq!((new.a, new.b), (7, 0));
        for (b, known) in [(0, true), (1, false)] {
            let new = New { size: size_of::<New>(), a: 8, b };
            // SAFETY: the struct begins with its own size.
            let old = unsafe { options((&raw const new).cast::<Old>(), "options") };
            assert_eq!(old.is_ok_and(|old| old.a == 8), known);
        }
        for size in [0, 7, LARGEST + 1] {
            let wrong = Old { size, a: 0 };
            // SAFETY: no more than its size is read.
            assert!(unsafe { options(&raw const wrong, "options") }.is_err());
        }
    }

    #[test]
    fn arrays_are_checked() {
        let two = [exonet_str::fixed("a\0"), exonet_str::fixed("b\0")];
        // SAFETY: there are two texts.
        let read = unsafe { texts(two.as_ptr(), 2, "members") }.unwrap();
        assert_eq!(read.iter().map(|text| text.get("text").unwrap()).collect::<Vec<_>>(), ["a", "b"]);
        for (place, count, why) in [(ptr::null(), 2, "NULL"), (two.as_ptr(), usize::MAX, "more than")] {
            // SAFETY: nothing is read.
            let wrong = unsafe { texts(place, count, "members") };
            assert!(wrong.err().unwrap().message().contains(why));
        }
        // SAFETY: nothing is read.
        assert!(unsafe { texts(ptr::null(), 0, "members") }.unwrap().is_empty());

        let mut place = [0; 3];
        // SAFETY: there is room for two, and one more that stays.
        unsafe { fill(place.as_mut_ptr(), 2, [1, 2, 3].into_iter(), "members") }.unwrap();
        assert_eq!(place, [1, 2, 0]);
        // SAFETY: nothing is written.
        let nowhere = unsafe { fill(ptr::null_mut(), 2, [1].into_iter(), "members") };
        assert!(nowhere.unwrap_err().message().contains("NULL"));
    }

    #[test]
    fn texts_and_bytes_are_checked() {
        let wrong = b"ab\xffc";
        let text = exonet_str { data: wrong.as_ptr().cast(), len: wrong.len() };
        assert!(text.get("name").unwrap_err().message().contains("byte 2"));
        let none = exonet_bytes { data: ptr::null(), len: 3 };
        assert!(none.copy("body").unwrap_err().message().contains("NULL"));
        let empty = exonet_bytes { data: ptr::null(), len: 0 };
        assert!(empty.copy("body").unwrap().is_empty());
        let huge = exonet_bytes { data: wrong.as_ptr(), len: usize::MAX };
        assert!(huge.copy("body").is_err());
    }
}
