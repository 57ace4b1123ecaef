//! Properties of the system, and of the file system of a directory.

use std::io;
use std::path::{Path, PathBuf};

/// The id of the current boot of the system. None: the system has none, or does not show it, for example Linux
/// without `/proc`.
#[must_use]
pub fn boot_id() -> Option<[u8; 16]> {
    let text = boot_text()?;
    let mut digits = text.bytes().filter(u8::is_ascii_hexdigit).map(|digit| match digit {
        b'0'..=b'9' => digit - b'0',
        digit => digit.to_ascii_lowercase() - b'a' + 10,
    });
    let mut id = [0; 16];
    for byte in &mut id {
        *byte = digits.next()? << 4 | digits.next()?;
    }
    Some(id).filter(|id| digits.next().is_none() && *id != [0; 16])
}

#[cfg(target_os = "linux")]
fn boot_text() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

/// Read with a tool of the system, since the system call would need `unsafe`.
#[cfg(target_os = "macos")]
fn boot_text() -> Option<String> {
    let output =
        std::process::Command::new("/usr/sbin/sysctl").args(["-n", "kern.bootsessionuuid"]).output().ok()?;
    String::from_utf8(output.stdout).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn boot_text() -> Option<String> {
    None
}

/// The kind of file system, unless it is one of the kernel's own on a disk of this machine.
#[cfg(target_os = "linux")]
pub(crate) fn remote(dir: &Path) -> io::Result<Option<&'static str>> {
    Ok(match magic(dir)? {
        0x6969 => Some("NFS"),
        0x517B | 0xFF53_4D42 | 0xFE53_4D42 => Some("SMB"),
        0x6573_5546 => Some("FUSE"),
        0x0102_1997 => Some("9p"),
        0x00C3_6400 => Some("Ceph"),
        0x5346_414F | 0x6B41_4653 => Some("AFS"),
        0x7375_7245 => Some("Coda"),
        0x0BD0_0BD0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636F => Some("OCFS2"),
        0x786F_4256 => Some("shared-folder"),
        _ => None,
    })
}

#[cfg(target_vendor = "apple")]
pub(crate) fn remote(dir: &Path) -> io::Result<Option<&'static str>> {
    Ok(match &*kind(dir)? {
        "apfs" | "hfs" | "tmpfs" => None,
        "nfs" => Some("NFS"),
        "smbfs" => Some("SMB"),
        _ => Some("network or user-space"),
    })
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(crate) fn remote(_: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Whether the file system writes an allocated block in place, so that a write into a mapping always finds room. A
/// copy-on-write file system may find none, and then raises SIGBUS.
#[cfg(target_os = "linux")]
pub(super) fn writes_in_place(dir: &Path) -> bool {
    // ext2 to ext4, XFS, tmpfs.
    magic(dir).is_ok_and(|magic| [0xEF53, 0x5846_5342, 0x0102_1994].contains(&magic))
}

#[cfg(target_vendor = "apple")]
pub(super) fn writes_in_place(dir: &Path) -> bool {
    kind(dir).is_ok_and(|kind| kind == "hfs")
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn writes_in_place(_: &Path) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn magic(dir: &Path) -> io::Result<u64> {
    // The type of this field differs between platforms; the numbers have 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
    Ok(rustix::fs::statfs(dir)?.f_type as u64 & 0xFFFF_FFFF)
}

#[cfg(target_vendor = "apple")]
fn kind(dir: &Path) -> io::Result<String> {
    let name = rustix::fs::statfs(dir)?.f_fstypename;
    let bytes = name.iter().map(|c| c.to_ne_bytes()[0]).take_while(|byte| *byte != 0);
    Ok(bytes.map(char::from).collect())
}

/// A directory in memory, which outlives processes but not the system.
#[cfg(unix)]
pub(super) fn runtime_dir() -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let places = [own, Some(format!("/run/user/{user}").into()), Some("/dev/shm".into())];
    places.into_iter().flatten().find(|dir| dir.is_dir())
}

#[cfg(not(unix))]
pub(super) fn runtime_dir() -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn this_system_tells_its_boots_apart() {
        assert!(super::boot_id().is_some());
        assert_eq!(super::boot_id(), super::boot_id());
    }
}
