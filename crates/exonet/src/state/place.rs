//! The default place of identities.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use super::error::StateError;

const MAX_NAME: usize = 64;

pub(super) fn named(name: &str) -> Result<PathBuf, StateError> {
    if !is_name(name) {
        return Err(StateError::Name { name: name.into() });
    }
    let root = root(|variable| env::var_os(variable), env::home_dir()).ok_or(StateError::NoHome)?;
    Ok(root.join(name))
}

/// The suffixes that a name must not have. An identity that moves has directories with them beside its own.
const SUFFIXES: [&str; 3] = [".arriving", ".former", ".door"];

/// Whether `name` can be the name of a directory. So it must be one component of a path on every platform, and must
/// not look like an option on a command line. Some platforms do not tell capital letters from small ones.
fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'))
        && !SUFFIXES.iter().any(|suffix| name.to_ascii_lowercase().ends_with(suffix))
}

fn root(variable: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(root) = path("EXONET_STATE") {
        return Some(root);
    }
    let home = || home.filter(|home| !home.as_os_str().is_empty());
    let base = if cfg!(windows) {
        path("LOCALAPPDATA").or_else(|| Some(home()?.join("AppData").join("Local")))
    } else if cfg!(target_vendor = "apple") {
        home().map(|home| home.join("Library").join("Application Support"))
    } else {
        // According to the XDG base directory specification, a relative path is invalid and is ignored.
        let xdg = path("XDG_STATE_HOME").filter(|base| base.is_absolute());
        xdg.or_else(|| Some(home()?.join(".local").join("state")))
    };
    base.map(|base| base.join("exonet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root_with(variables: &[(&str, &str)], home: Option<&str>) -> Option<PathBuf> {
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        root(find, home.map(PathBuf::from))
    }

    #[test]
    fn a_name_is_one_harmless_path_component() {
        for good in ["default", "a", "7", "web-1.eu_west", "door", "a.doors", &"n".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "-x",
            "a/b",
            "a\\b",
            "a b",
            "é",
            "a\0",
            "a.arriving",
            "a.former",
            "a.Door",
            &"n".repeat(65),
        ] {
            assert!(!is_name(bad), "{bad}");
            assert!(matches!(named(bad), Err(StateError::Name { .. })));
        }
    }

    #[test]
    fn our_own_variable_comes_first() {
        let variables = [("EXONET_STATE", "rel/here"), ("XDG_STATE_HOME", "/xdg")];
        assert_eq!(root_with(&variables, Some("/home/u")), Some("rel/here".into()));
    }

    #[cfg(not(any(windows, target_vendor = "apple")))]
    #[test]
    fn the_base_directory_specification_is_followed() {
        let home = Some("/home/u");
        let default = Some(PathBuf::from("/home/u/.local/state/exonet"));
        assert_eq!(root_with(&[("XDG_STATE_HOME", "/xdg")], home), Some("/xdg/exonet".into()));
        assert_eq!(root_with(&[], home), default);
        assert_eq!(root_with(&[("XDG_STATE_HOME", "relative")], home), default);
        assert_eq!(root_with(&[("XDG_STATE_HOME", ""), ("EXONET_STATE", "")], home), default);
    }

    #[test]
    fn no_home_is_no_place() {
        assert_eq!(root_with(&[], None), None);
        assert_eq!(root_with(&[], Some("")), None);
    }
}
