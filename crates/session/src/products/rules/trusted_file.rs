//! A file whose commands may be run: nobody but its user, or root, can change it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use weigh_account::rules::RuleSet;

/// Bits of the mode that let others write.
const OTHERS_WRITE: u32 = 0o022;
/// In such a folder nobody renames what is another's.
const STICKY: u32 = 0o1000;

/// Reads a file of rules, the commands of which will be run.
///
/// # Errors
/// Where it cannot be read, is no file of rules, or has commands while others may change it; with what to type.
pub fn read_trusted(path: &Path) -> anyhow::Result<RuleSet> {
    let shown = path.display().to_string();
    let cannot_read = || format!("cannot read the rules in {shown}");
    let mut file = File::open(path).with_context(cannot_read)?;
    let about = file.metadata().with_context(cannot_read)?;
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(cannot_read)?;
    let rules = RuleSet::parse(&text, &shown)?;
    if rules.rules().iter().all(|rule| rule.command.is_empty()) {
        return Ok(rules);
    }
    let own = rustix::process::geteuid().as_raw();
    let is_owned = |uid: u32| uid == 0 || uid == own;
    if !about.is_file() || !is_owned(about.uid()) || about.mode() & OTHERS_WRITE != 0 {
        let owner = if own == 0 { "root" } else { "you" };
        bail!(
            "{shown} has commands, and others may change it: expected a file of {owner} that nobody else may write; \
             type: chown {own} {shown} && chmod go-w {shown}"
        );
    }
    let folder = match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => folder,
        None => Path::new("."),
    };
    let about = std::fs::metadata(folder).with_context(cannot_read)?;
    let is_open = about.mode() & OTHERS_WRITE != 0 && about.mode() & STICKY == 0;
    if !is_owned(about.uid()) || is_open {
        bail!(
            "{shown} has commands, and others may put another file in its place: expected that nobody else may write \
             its folder; type: chmod go-w {}",
            folder.display()
        );
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn commands_of_a_file_that_others_may_change_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        let rule = "[rule.r]\nwhen = \"node_threads > 1\"\ntext = \"t\"\n";
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        std::fs::write(&path, rule).unwrap();
        mode(&path, 0o666);
        assert!(read_trusted(&path).is_ok(), "it has no command");
        std::fs::write(&path, format!("{rule}command = [\"true\"]\n")).unwrap();
        let said = read_trusted(&path).unwrap_err().to_string();
        assert!(said.contains("others may change it") && said.contains("chmod go-w"), "{said}");
        mode(&path, 0o644);
        assert!(read_trusted(&path).is_ok());
        mode(folder.path(), 0o777);
        let said = read_trusted(&path).unwrap_err().to_string();
        assert!(said.contains("in its place"), "{said}");
        mode(folder.path(), 0o1777);
        assert!(read_trusted(&path).is_ok());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(read_trusted(&path).is_err(), "it is another user's");
        }
    }
}
