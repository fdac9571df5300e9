//! The certificate and key of the page: files that the user names, or what the agent hands to the process it has started.
//!
//! Refuses a key that others may read or change, and what is no file.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;
use weigh_session::products::agent::PagePem;
use weigh_web::TlsIdentity;

use weigh_arguments::{ServeArguments, TlsArguments};

/// Bytes of each: chains have a few thousand.
const MOST_BYTES: u64 = 256 * 1024;
/// Modes of a key that is not its owner's and group's alone: groups as ssl-cert, and systemd's credentials, may read it.
const OTHERS: u32 = 0o027;

/// The files' contents; none where none are named.
pub fn read(arguments: &TlsArguments) -> anyhow::Result<Option<PagePem>> {
    let Some((certificates, key)) = arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref())
    else {
        return Ok(None);
    };
    let failed = |option: &str, path: &Path| format!("{option} {}", path.display());
    Ok(Some(PagePem {
        certificates: read_file(certificates, 0)
            .with_context(|| failed("--tls-cert", certificates))?,
        key: read_file(key, OTHERS).with_context(|| failed("--tls-key", key))?,
    }))
}

/// What they make the server.
pub fn identity(arguments: &TlsArguments, pem: &PagePem) -> anyhow::Result<TlsIdentity> {
    let shown =
        |path: &Option<PathBuf>| path.as_deref().unwrap_or(Path::new("-")).display().to_string();
    let (certificates, key) = (shown(&arguments.tls_cert), shown(&arguments.tls_key));
    let failed = || format!("--tls-cert {certificates} --tls-key {key}");
    TlsIdentity::parse(&pem.certificates, &pem.key).with_context(failed)
}

/// What a server of these arguments says it is; none where it has no TLS.
pub fn server_identity(arguments: &ServeArguments) -> anyhow::Result<Option<TlsIdentity>> {
    let pem = match arguments.tls_input {
        true => Some(PagePem::read_input(&mut std::io::stdin().lock()).context("--tls-input")?),
        false => read(&arguments.tls)?,
    };
    pem.map(|pem| identity(&arguments.tls, &pem)).transpose()
}

/// Reads a plain file that these may do nothing with.
fn read_file(path: &Path, others: u32) -> anyhow::Result<Vec<u8>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        bail!("it is not a plain file");
    }
    if about.mode() & others != 0 {
        bail!("others may read or change it: chmod g-w,o-rwx {}", path.display());
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MOST_BYTES {
        true => bail!("it is longer than {} KiB: expected PEM", MOST_BYTES / 1024),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_that_others_may_read_is_refused_with_the_line_to_type() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "key").unwrap();
        let with_mode = |mode: u32| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read_file(&path, OTHERS).map_err(|error| error.to_string())
        };
        assert_eq!(with_mode(0o600), Ok(b"key".to_vec()));
        assert!(with_mode(0o640).is_ok() && with_mode(0o440).is_ok());
        for mode in [0o644, 0o660, 0o602] {
            let error = with_mode(mode).unwrap_err();
            assert!(error.ends_with(&format!("chmod g-w,o-rwx {}", path.display())), "{error}");
        }
        assert!(read_file(dir.path(), 0).is_err());
        assert!(
            read_file(Path::new("/dev/zero"), 0).unwrap_err().to_string().contains("plain file")
        );
    }
}
