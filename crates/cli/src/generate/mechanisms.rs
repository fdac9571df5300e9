//! `docs/mechanisms.md`, from the declarations of the levels and of the ways to follow a job.

use weigh_schema::following::{FOLLOWINGS, Following, Level};

/// The reference of all mechanisms.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Levels and mechanisms\n\n\
         Derived from the declarations in `crates/schema/src/following.rs`; do not edit by hand. \
         What each costs is measured in [performance.md](performance.md).\n\n\
         `weigh run --mechanism NAME --level N` chooses. Without them weigh takes the first of \
         these that works, and says on standard error why it is not a better \
         one; `weigh doctor` says what works. A mechanism that is named and does not work is an \
         error, and the command is not run.\n\n",
    );
    out.push_str("| level | |\n|---|---|\n");
    for level in Level::ALL {
        out.push_str(&format!("| {} | {} |\n", level.number(), level.help()));
    }
    out.push_str("\n| mechanism | levels | needs | a limit is noticed |\n|---|---|---|---|\n");
    for Following { name, needs, limits, .. } in FOLLOWINGS {
        out.push_str(&format!("| [`{name}`](#{name}) | {} | {needs} | {limits} |\n", levels(name)));
    }
    for Following { name, mechanism, sees, loses, needs, unasked, .. } in FOLLOWINGS {
        out.push_str(&format!(
            "\n## {name}\n\nSource of its values in the summary: `{mechanism}`. Levels: {}; {} unless asked for.\n\n\
             - Sees: {sees}.\n- Loses: {loses}.\n- Needs: {needs}.\n",
            levels(name),
            unasked.number()
        ));
    }
    out
}

fn levels(name: &str) -> String {
    let following = weigh_schema::following::following(name);
    let numbers = following.iter().flat_map(|f| f.levels).map(|level| level.number().to_string());
    numbers.collect::<Vec<_>>().join(", ")
}
