//! The border: results and panics inside become a code and an error.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::fault::{Fault, exonet_code, exonet_error};

/// Does the work of a function that can fail.
pub(crate) fn border(
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
    work: impl FnOnce() -> Result<(), Fault>,
) -> exonet_code {
    let fault = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(panic) => Some(Fault::panic(&*panic)),
    };
    let code = fault.as_ref().map_or(exonet_code::EXONET_OK, Fault::code);
    if let Some(place) = error {
        let told = fault.filter(|fault| fault.code() != exonet_code::EXONET_TIMEOUT);
        place.write(told.map_or(ptr::null_mut(), |fault| Box::into_raw(Box::new(exonet_error::new(fault)))));
    }
    code
}

/// Does the work of a function that only reads.
pub(crate) fn look<T>(otherwise: T, work: impl FnOnce() -> Option<T>) -> T {
    catch_unwind(AssertUnwindSafe(work)).ok().flatten().unwrap_or(otherwise)
}

/// Frees a handle that a caller gives back.
pub(crate) fn free<T>(handle: Option<Box<T>>) {
    // A panic in a destructor has been reported on standard error; its caller can do nothing about it.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
}

/// The handle in a parameter, which must not be NULL.
pub(crate) fn given<'a, T>(handle: Option<&'a T>, name: &str) -> Result<&'a T, Fault> {
    handle.ok_or_else(|| Fault::usage(format!("{name} is NULL")))
}

/// The place for a result.
pub(crate) struct Out<'a, T>(&'a mut MaybeUninit<T>);

impl<'a, T> Out<'a, *mut T> {
    /// A place for a handle that the caller may not want; it is NULL until there is one.
    pub(crate) fn optional(place: Option<&'a mut MaybeUninit<*mut T>>) -> Option<Self> {
        place.map(|place| {
            place.write(ptr::null_mut());
            Self(place)
        })
    }

    /// A place for a handle, which is NULL until there is one.
    pub(crate) fn handle(place: Option<&'a mut MaybeUninit<*mut T>>, name: &str) -> Result<Self, Fault> {
        let mut out = Out::value(place, name)?;
        out.set(ptr::null_mut());
        Ok(out)
    }

    /// Gives a handle to the caller.
    pub(crate) fn give(&mut self, handle: T) {
        self.set(Box::into_raw(Box::new(handle)));
    }
}

impl<'a, T> Out<'a, T> {
    /// A place for a value.
    pub(crate) fn value(place: Option<&'a mut MaybeUninit<T>>, name: &str) -> Result<Self, Fault> {
        place.map(Self).ok_or_else(|| Fault::usage(format!("{name} is NULL")))
    }

    /// Sets the value.
    pub(crate) fn set(&mut self, value: T) {
        self.0.write(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_says_what_it_said() {
        let mut place = MaybeUninit::uninit();
        let code = border(Some(&mut place), || panic!("number {}", 7));
        assert_eq!(code, exonet_code::EXONET_PANIC);
        // SAFETY: `border` has written to it.
        let error = unsafe { Box::from_raw(place.assume_init()) };
        assert!(error.fault().message().contains("number 7"), "{}", error.fault().message());
        assert_eq!(border(None, || panic!("nobody asks")), exonet_code::EXONET_PANIC);
        assert_eq!(look(3, || panic!("a look")), 3);
    }

    #[test]
    fn success_and_a_timeout_leave_no_error() {
        for (work, code) in
            [(Ok(()), exonet_code::EXONET_OK), (Err(Fault::timeout()), exonet_code::EXONET_TIMEOUT)]
        {
            let mut place = MaybeUninit::new(ptr::dangling_mut());
            assert_eq!(border(Some(&mut place), || work), code);
            // SAFETY: `border` has written to it.
            assert!(unsafe { place.assume_init() }.is_null());
        }
    }
}
