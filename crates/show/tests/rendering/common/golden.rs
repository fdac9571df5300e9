//! Text that is held to a file in the repository.
#![allow(dead_code)]

use std::path::Path;

/// Compares with the file; with `WEIGH_BLESS` set, writes it.
pub fn check(path: &str, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("WEIGH_BLESS").is_some() {
        std::fs::write(&file, found).expect("golden files can be written");
        return;
    }
    let wanted = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        wanted == found,
        "{} is not what is made now; look at the difference, then \
         `WEIGH_BLESS=1 cargo test -p weigh-show`.\n--- now:\n{found}",
        file.display()
    );
}
