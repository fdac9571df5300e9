//! The script and style of the live page, which a server hands out.

use crate::document::{Bundle, bundle};

const BUNDLE: Bundle = bundle!("live");

/// The bundle of the live page.
#[derive(Clone, Copy, Debug)]
pub struct LiveAssets {
    /// The script.
    pub script: &'static str,
    /// Its SHA-256 in Base64.
    pub script_hash: &'static str,
    /// The style.
    pub css: &'static str,
    /// Its SHA-256 in Base64.
    pub css_hash: &'static str,
}

/// What the live page loads.
pub fn live_assets() -> LiveAssets {
    let Bundle { script, script_hash, css, css_hash } = BUNDLE;
    LiveAssets { script, script_hash: script_hash.trim(), css, css_hash: css_hash.trim() }
}
