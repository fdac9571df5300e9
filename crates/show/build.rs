//! Hands the bundle of `dashboard/` to the crate, which embeds it in its pages.
//!
//! Reads `dashboard/dist/`; refuses with the way to build it if it is not there. It does not run
//! npm itself: a Rust build should not reach for the network.

use std::path::Path;

/// What `npm run build` leaves behind and pages embed.
const BUNDLES: [&str; 16] = [
    "report.js",
    "report.css",
    "report.js.sha256",
    "report.css.sha256",
    "explain.js",
    "explain.css",
    "explain.js.sha256",
    "explain.css.sha256",
    "trace.js",
    "trace.css",
    "trace.js.sha256",
    "trace.css.sha256",
    "live.js",
    "live.css",
    "live.js.sha256",
    "live.css.sha256",
];

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
    let dist = Path::new(&here).join("../../dashboard/dist");
    println!("cargo::rerun-if-changed=build.rs");
    for name in BUNDLES {
        let file = dist.join(name);
        println!("cargo::rerun-if-changed={}", file.display());
        if !file.is_file() {
            println!(
                "cargo::error=a page's bundle is missing (dashboard/dist/{name}): \
                 run `make`, or `npm ci && npm run build` in dashboard/"
            );
        }
    }
    println!("cargo::rustc-env=WEIGH_DASHBOARD_DIST={}", dist.display());
}
