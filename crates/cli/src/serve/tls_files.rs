//! The certificate and key of the page: files that the user names, or what the agent hands to the process it has started.
//!
//! Refuses a key that others may read or change, and what is no file. Renewed files take the place of the old ones while the page is
//! served; where they are broken the old ones stay.

use std::fs::File;
use std::io::{IsTerminal as _, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;
use weigh_collect::notice;
use weigh_session::products::agent::PagePem;
use weigh_web::{TlsIdentity, TlsRenewal};

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

/// Files that were read, and when they were changed.
pub struct TlsFiles {
    arguments: TlsArguments,
    seen: Mutex<FileTimes>,
}

/// When a file was changed, and which it is; of the certificate and of the key.
type FileTimes = [Option<(i64, i64, u64)>; 2];

impl TlsFiles {
    /// Those of these arguments as they are now.
    pub fn new(arguments: &TlsArguments) -> TlsFiles {
        TlsFiles { arguments: arguments.clone(), seen: Mutex::new(times(arguments)) }
    }

    /// What is in them if they were changed since this was asked last, or it is asked for; else, and where it cannot be served with,
    /// which is said, none.
    pub fn renewed(&self, is_asked: bool) -> Option<(PagePem, TlsIdentity)> {
        let now = times(&self.arguments);
        // It is whole between any two statements.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *seen, now) == now && !is_asked {
            return None;
        }
        let pem = read(&self.arguments).and_then(|pem| pem.context("no file is named"));
        let found = pem.and_then(|pem| Ok((pem.clone(), identity(&self.arguments, &pem)?)));
        found.map_err(|error| say_kept(&error)).ok()
    }
}

fn times(arguments: &TlsArguments) -> FileTimes {
    [&arguments.tls_cert, &arguments.tls_key].map(|path| {
        let about = std::fs::metadata(path.as_deref()?).ok()?;
        Some((about.mtime(), about.mtime_nsec(), about.ino()))
    })
}

fn say_kept(error: &anyhow::Error) {
    notice!("the page is served with the certificate that it has: {error:#}");
}

/// Has the identity renewed: by the files, where some are named.
pub fn renewal(arguments: &ServeArguments, identity: Option<&TlsIdentity>) -> Option<TlsRenewal> {
    arguments.tls.tls_cert.as_ref()?;
    let (files, identity) = (TlsFiles::new(&arguments.tls), identity?.clone());
    let renew = move |is_asked| {
        if let Some((_, fresh)) = files.renewed(is_asked) {
            renew(&identity, &fresh);
        }
    };
    // A terminal that is closed ends what was started in it.
    let by_hangup = !std::io::stderr().is_terminal();
    Some(TlsRenewal { renew: Arc::new(renew), by_hangup })
}

/// Serves with another certificate from now on, and says so.
fn renew(identity: &TlsIdentity, fresh: &TlsIdentity) {
    match identity.renew(fresh) {
        Ok(()) => notice!("the page is served with the new certificate"),
        Err(error) => say_kept(&error.into()),
    }
}

/// Has it renewed by what the agent sends on standard input, until that ends.
pub fn renew_by_input(identity: Option<&TlsIdentity>) {
    let mut input = std::io::stdin().lock();
    while let (Some(identity), Ok(pem)) = (identity, PagePem::read_input(&mut input)) {
        match TlsIdentity::parse(&pem.certificates, &pem.key) {
            Ok(fresh) => renew(identity, &fresh),
            Err(error) => say_kept(&error.into()),
        }
    }
    let _ = std::io::copy(&mut input, &mut std::io::sink());
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
