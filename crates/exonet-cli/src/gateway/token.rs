//! The token that each request carries.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use rand::TryRngCore;
use rand::rngs::OsRng;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// The file in the directory of the identity.
pub(super) const FILE: &str = "http-token";
/// The shortest token: a shorter one can be guessed.
const SHORTEST: usize = 16;
/// The longest file of a token.
const LONGEST: usize = 4_096;

/// A secret that clients know. Only its hash is kept, so that the time of a comparison reveals nothing, not even its
/// length.
pub(super) struct Token {
    hash: blake3::Hash,
    pub(super) path: PathBuf,
}

impl Token {
    /// Reads the token, and creates it if there is none yet.
    pub(super) fn open(path: PathBuf) -> Result<Self, Failure> {
        let failed = |e: &io::Error| Failure::path("read the token in", &path, e);
        let file = match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&path)?;
                open(&path)
            }
            opened => opened,
        };
        let file = file.map_err(|e| failed(&e))?;
        check(&file, &path)?;
        let mut text = Zeroizing::new(Vec::with_capacity(LONGEST + 2));
        (&file).take(LONGEST as u64 + 2).read_to_end(&mut text).map_err(|e| failed(&e))?;
        let token = text.trim_ascii();
        if !(SHORTEST..=LONGEST).contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
            let failure = Failure::new(format!("{} has no token", path.display()));
            return Err(failure.hint(format!(
                "a token is one line of {SHORTEST} to {LONGEST} letters, digits and signs; remove the file, \
                 and a new one is created"
            )));
        }
        Ok(Self { hash: blake3::hash(token), path })
    }

    /// Whether the header `Authorization` carries the token.
    pub(super) fn is_shown(&self, header: &[u8]) -> bool {
        let (scheme, shown) = header.split_at_checked(7).unwrap_or_default();
        let shown = blake3::hash(shown.trim_ascii());
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(shown.as_bytes().ct_eq(self.hash.as_bytes()))
    }
}

/// Opens the file. A path that is not a regular file is refused later: opening a named pipe must not wait for its
/// writer.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    options.read(true).open(path)
}

/// Creates the file atomically, readable by its owner only.
fn make(path: &Path) -> Result<(), Failure> {
    let failed = |e: &io::Error| Failure::path("make the token in", path, e);
    let mut random = Zeroizing::new([0; 32]);
    OsRng
        .try_fill_bytes(&mut *random)
        .map_err(|e| Failure::new("the system gives no random bytes").because(&e))?;
    let token = Zeroizing::new(format!("{}\n", BASE64.encode(*random)).into_bytes());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The file is created with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|e| failed(&e))?;
    file.write_all(&token).and_then(|()| file.as_file().sync_all()).map_err(|e| failed(&e))?;
    match file.persist_noclobber(path) {
        // Another process has created it in the meantime.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists && path.exists() => Ok(()),
        made => made.map(drop).map_err(|e| failed(&e.error)),
    }
}

/// Checks the file that is open, not the one that is at its path now.
fn check(file: &File, path: &Path) -> Result<(), Failure> {
    let about = file.metadata().map_err(|e| Failure::path("look at the token in", path, &e))?;
    if !about.is_file() {
        return Err(Failure::new(format!("{} is not a regular file", path.display())));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o077 != 0 {
        let failure = Failure::new(format!("others can read the token in {}", path.display()));
        return Err(failure.hint(format!("let only yourself read it: chmod 600 {}", path.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_known_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        let made = Token::open(path.clone()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let (text, again) = (text.trim(), Token::open(path).unwrap());
        for (header, is) in [
            (format!("Bearer {text}"), true),
            (format!("bearer {text}"), true),
            (format!("Basic {text}"), false),
            (format!("Bearer {text}x"), false),
            (format!("Bearer {}", &text[1..]), false),
            ("Bearer ".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(
                (made.is_shown(header.as_bytes()), again.is_shown(header.as_bytes())),
                (is, is),
                "{header}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_token_that_others_read_or_guess_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        drop(Token::open(path.clone()).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Token::open(path.clone()).err().unwrap().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(Token::open(path).err().unwrap().to_string().contains("has no token"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_as_private_as_what_it_leads_to_and_nothing_is_made_behind_one() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let place = tempfile::tempdir().unwrap();
        let (path, there) = (place.path().join(FILE), place.path().join("there"));
        symlink(&there, &path).unwrap();
        assert!(Token::open(path.clone()).is_err() && !there.exists());
        fs::write(&there, "0123456789abcdef").unwrap();
        fs::set_permissions(&there, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Token::open(path.clone()).err().unwrap().to_string().contains("chmod 600"));
        fs::set_permissions(&there, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Token::open(path).unwrap().is_shown(b"Bearer 0123456789abcdef"));
    }

    #[test]
    fn what_is_no_file_or_has_no_end_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        fs::create_dir(&path).unwrap();
        assert!(Token::open(path.clone()).is_err());
        fs::remove_dir(&path).unwrap();
        drop(Token::open(path.clone()).unwrap());
        fs::write(&path, "x".repeat(LONGEST + 1)).unwrap();
        assert!(Token::open(path).err().unwrap().to_string().contains("has no token"));
        #[cfg(unix)]
        {
            let pipe = place.path().join("pipe");
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &pipe,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR,
                0,
            )
            .unwrap();
            for path in [pipe, "/dev/zero".into()] {
                assert!(Token::open(path).err().unwrap().to_string().contains("is not a regular file"));
            }
        }
    }
}
