//! `report.html`: one file that shows a recording and needs nothing else, no network either.
//!
//! Reads the summary and the rows of the recording's tables; emits HTML with the bundle of
//! `dashboard/` and all data in it. The page's policy admits exactly the embedded script and
//! style (by their hashes) and no connection at all, so text from the job can not become code.

mod page;
mod thin;

pub use page::{Files, GroupTitle, LimitRow, MetricRow, Page, Processes, SeriesRows, Totals, page};

use weigh_schema::recording::{FileRow, ProcessRow, SampleRow};
use weigh_schema::summary::Summary;

use crate::text::shell_words;

const SCRIPT: &str = include_str!(concat!(env!("WEIGH_DASHBOARD_DIST"), "/report.js"));
const SCRIPT_HASH: &str = include_str!(concat!(env!("WEIGH_DASHBOARD_DIST"), "/report.js.sha256"));
const CSS: &str = include_str!(concat!(env!("WEIGH_DASHBOARD_DIST"), "/report.css"));
const CSS_HASH: &str = include_str!(concat!(env!("WEIGH_DASHBOARD_DIST"), "/report.css.sha256"));

/// The page. `totals` says how many rows there are in all, where the caller passes fewer.
pub fn render(
    summary: &Summary,
    samples: &[SampleRow],
    processes: &[ProcessRow],
    files: &[FileRow],
    totals: Totals,
) -> String {
    let page = page(summary, samples, processes, files, totals);
    let data = serde_json::to_string(&page).expect("a page has only string keys");
    let title = escape_html(&format!("{} · weigh", shell_words(&summary.job.command)));
    format!(
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
         <style>{CSS}</style>\n\
         </head>\n\
         <body>\n\
         <noscript>This page draws itself with a script. The numbers are in summary.json beside \
         it, and `weigh show` prints them.</noscript>\n\
         <div id=\"weigh\"></div>\n\
         <script type=\"application/json\" id=\"weigh-data\">{data}</script>\n\
         <script>{SCRIPT}</script>\n\
         </body>\n\
         </html>\n",
        script_hash = SCRIPT_HASH.trim(),
        css_hash = CSS_HASH.trim(),
        version = escape_html(&summary.host.weigh),
        data = escape_json(&data),
    )
}

/// JSON that can stand inside `<script>`. In JSON these characters occur inside strings only,
/// where the escaped form means the same.
fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
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
