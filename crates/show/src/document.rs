//! One HTML file that needs nothing else, no network either: a bundle of `dashboard/` with the data
//! that it draws. The file's policy admits exactly the embedded script and style (by their hashes)
//! and no connection at all, so text from the job cannot become code.

use std::fmt::Write as _;

use serde::Serialize;

/// A script of `dashboard/` with its style, and the hashes of both.
pub(crate) struct Bundle {
    pub(crate) script: &'static str,
    pub(crate) script_hash: &'static str,
    pub(crate) css: &'static str,
    pub(crate) css_hash: &'static str,
}

/// The bundle of that name.
macro_rules! bundle {
    ($name:literal) => {
        $crate::document::Bundle {
            script: include_str!(concat!(env!("WEIGH_DASHBOARD_DIST"), "/", $name, ".js")),
            script_hash: include_str!(concat!(
                env!("WEIGH_DASHBOARD_DIST"),
                "/",
                $name,
                ".js.sha256"
            )),
            css: include_str!(concat!(env!("WEIGH_DASHBOARD_DIST"), "/", $name, ".css")),
            css_hash: include_str!(concat!(
                env!("WEIGH_DASHBOARD_DIST"),
                "/",
                $name,
                ".css.sha256"
            )),
        }
    };
}
pub(crate) use bundle;

/// More than what stands round script, style and data, with titles of the usual length.
const FRAME_BYTES: usize = 4096;

/// The file. `instead` is what readers without scripts are told, `version` that of weigh.
pub(crate) fn document(
    bundle: &Bundle,
    title: &str,
    instead: &str,
    version: &str,
    data: &impl Serialize,
) -> String {
    let data = serde_json::to_string(data).expect("a page has only string keys");
    let Bundle { script, script_hash, css, css_hash } = bundle;
    let data = escape_json(&data);
    let mut page = String::with_capacity(script.len() + css.len() + data.len() + FRAME_BYTES);
    // Nothing that is written to a string fails.
    let _ = write!(
        page,
        "<!doctype html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         script-src 'sha256-{script_hash}'; style-src 'sha256-{css_hash}'; img-src data:; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"weigh {version}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n\
         <style>{css}</style>\n\
         </head>\n\
         <body>\n\
         <noscript>{instead}</noscript>\n\
         <div id=\"weigh\"></div>\n\
         <script type=\"application/json\" id=\"weigh-data\">{data}</script>\n\
         <script>{script}</script>\n\
         </body>\n\
         </html>\n",
        script_hash = script_hash.trim(),
        css_hash = css_hash.trim(),
        title = escape_html(title),
        instead = escape_html(instead),
        version = escape_html(version),
    );
    page
}

/// JSON that can stand inside `<script>`. In JSON these characters occur inside strings only,
/// where the escaped form means the same.
fn escape_json(json: &str) -> String {
    let in_markup = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    in_markup.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_can_not_leave_its_script() {
        let nasty = "</script><script>alert(1)</script><!-- & \u{2028}\u{2029}";
        let json = serde_json::to_string(nasty).unwrap();
        let escaped = escape_json(&json);
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), nasty);
    }
}
