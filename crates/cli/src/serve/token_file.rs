//! The file with the token by which programs collect the node's metrics: the same after each start.
//!
//! Reads a file of this process's own user alone, or of root's; makes it where it is not there. Refuses one that others
//! may read or change.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;
use weigh_wire::Token;

/// Far more than a token has.
const MOST_BYTES: u64 = 4096;

/// The token of a file. Errors: others may read it; it has no token; it cannot be made.
pub fn read_or_make(path: &Path) -> anyhow::Result<Token> {
    let failed = || format!("--token-file {}", path.display());
    let made = make(path).context("it cannot be made").with_context(failed)?;
    made.map_or_else(|| read(path).with_context(failed), Ok)
}

/// None where there is a file.
fn make(path: &Path) -> io::Result<Option<Token>> {
    let mut options = File::options();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        opened => opened?,
    };
    let token = Token::generate()?;
    file.write_all(format!("{}\n", token.text()).as_bytes())?;
    file.sync_all()?;
    Ok(Some(token))
}

fn read(path: &Path) -> anyhow::Result<Token> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if !about.is_file() || ![0, own].contains(&about.uid()) {
        bail!("it is not a plain file of yours");
    }
    if about.mode() & 0o077 != 0 {
        bail!("others may read or change it: chmod 600 {}", path.display());
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    let token = Token::parse(text.trim());
    token.context("it has no token: expected 64 hexadecimal digits; without the file it is made")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_is_made_once_and_refused_where_others_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let token = read_or_make(&path).expect("it is made");
        let mode = || path.metadata().expect("a file").mode() & 0o777;
        assert_eq!(mode(), 0o600);
        assert!(read_or_make(&path).expect("it is read").is(token.text()), "it stays the same");
        for open in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(open)).expect("a mode");
            let error = format!("{:#}", read_or_make(&path).expect_err("others may read it"));
            assert!(error.contains("--token-file") && error.contains("chmod 600"), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        std::fs::write(&path, "short").expect("it writes");
        assert!(read_or_make(&path).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(read_or_make(&link).is_err(), "links are not followed");
    }
}
