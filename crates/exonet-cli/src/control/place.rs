//! The path of the control socket of an identity.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The directory of sockets within the directory of the identity, and the name of the control socket in it.
const DIRECTORY: &str = "control";
pub(crate) const CONTROL: &str = "socket";
/// The name of the socket of the process that keeps the connections of tunnels.
pub(crate) const KEEPER: &str = "keeper";
/// The longest path of a socket: the shortest limit of any Unix is 104 bytes, including a zero at the end.
const LONGEST_PATH: usize = 103;

/// The socket of the identity in `state` that is called `name`. It depends only on that path and on the environment of the user.
pub(crate) fn of(state: &Path, name: &str) -> Result<PathBuf, Failure> {
    // All paths of the directory lead to the same socket.
    let state = fs::canonicalize(state).map_err(|e| Failure::path("find", state, &e))?;
    let beside = state.join(DIRECTORY).join(name);
    if beside.as_os_str().len() <= LONGEST_PATH {
        return Ok(beside);
    }
    let hash = blake3::hash(state.as_os_str().as_bytes()).to_hex();
    let name = format!("{}.{name}", hash.get(..32).unwrap_or_default());
    let path = runtime().join(name);
    if path.as_os_str().len() <= LONGEST_PATH {
        return Ok(path);
    }
    let failure = Failure::new(format!("no control socket: {} is too long a path for one", path.display()));
    Err(failure.hint("set XDG_RUNTIME_DIR to a directory with a shorter path"))
}

/// The user that the identity in `state` belongs to.
pub(super) fn owner(state: &Path) -> Result<u32, Failure> {
    fs::metadata(state).map(|about| about.uid()).map_err(|e| Failure::path("look at", state, &e))
}

/// The user's runtime directory, which is emptied at boot.
fn runtime() -> PathBuf {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    given.map_or_else(
        || std::env::temp_dir().join(format!("exonet-{}", rustix::process::geteuid().as_raw())),
        |given| given.join("exonet"),
    )
}

/// Creates the directory of a socket, accessible to this user only. If the directory exists, checks that this user
/// owns it and makes it inaccessible to others.
pub(super) fn prepare(socket: &Path) -> Result<(), Failure> {
    let directory = socket.parent().unwrap_or(socket);
    let failed = |error: &io::Error| Failure::path("make", directory, error);
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&error)),
        _ => {}
    }
    let about = fs::symlink_metadata(directory).map_err(|e| failed(&e))?;
    if !about.is_dir() || about.uid() != rustix::process::geteuid().as_raw() {
        let failure = Failure::new(format!("{} is not a directory of this user", directory.display()));
        return Err(failure.hint("the control socket must be there: move away what is there"));
    }
    if about.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(|e| failed(&e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_too_long_is_replaced_by_a_name_of_its_own() {
        let place = tempfile::tempdir().unwrap();
        let short = place.path().join("short");
        let long = ["a", "b"].map(|name| place.path().join(name.repeat(120)));
        for path in long.iter().chain([&short]) {
            fs::create_dir(path).unwrap();
        }
        assert!(of(&short, CONTROL).unwrap().ends_with("short/control/socket"));
        let [a, b] = long.map(|path| of(&path, CONTROL).unwrap());
        assert!(a != b && a.parent() == b.parent());
        assert!(a.as_os_str().len() <= LONGEST_PATH);
    }

    #[test]
    fn a_directory_that_is_open_to_others_is_closed_and_a_strange_one_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("control");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        prepare(&directory.join("socket")).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        assert!(prepare(&link.join("socket")).is_err());
    }
}
