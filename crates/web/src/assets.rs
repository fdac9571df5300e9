//! The page itself and what it loads: embedded, under names that change with their contents.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use weigh_show::{LiveAssets, live_assets};

/// Digits of a hash that stand in a name.
const HASH_CHARACTERS: usize = 16;

/// A file that is served from memory.
#[derive(Clone, Debug)]
struct Asset {
    path: String,
    kind: &'static str,
    cache: &'static str,
    etag: HeaderValue,
    text: std::borrow::Cow<'static, str>,
}

/// The page, its script and its style.
pub(crate) struct Assets {
    index: Asset,
    files: Vec<Asset>,
}

impl Assets {
    pub(crate) fn new() -> Assets {
        const IMMUTABLE: &str = "private, max-age=31536000, immutable";
        let LiveAssets { script, script_hash, css, css_hash } = live_assets();
        let file = |ending, kind, text: &'static str, hash| Asset {
            path: format!("/assets/live.{}.{ending}", short(hash)),
            kind,
            cache: IMMUTABLE,
            etag: etag(hash),
            text: text.into(),
        };
        let script = file("js", "text/javascript; charset=utf-8", script, script_hash);
        let css = file("css", "text/css; charset=utf-8", css, css_hash);
        let index = Asset {
            path: "/".to_string(),
            kind: "text/html; charset=utf-8",
            // Asked for again each time: its names lead to the script of this build.
            cache: "no-cache",
            etag: etag(&format!("{script_hash}{css_hash}")),
            text: index(&script.path, &css.path).into(),
        };
        Assets { index, files: vec![script, css] }
    }

    /// The answer to a request that is none of the API's.
    pub(crate) fn answer(&self, path: &str, headers: &HeaderMap) -> Response {
        if !path.starts_with("/assets/") {
            return self.index.answer(headers);
        }
        match self.files.iter().find(|file| file.path == path) {
            Some(file) => file.answer(headers),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }
}

impl Asset {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let fixed = HeaderValue::from_static;
        let common = [(ETAG, self.etag.clone()), (CACHE_CONTROL, fixed(self.cache))];
        let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        let is_known =
            |tag: &str| tag.trim().trim_start_matches("W/").as_bytes() == self.etag.as_bytes();
        if known.is_some_and(|tags| tags.split(',').any(is_known)) {
            return (StatusCode::NOT_MODIFIED, common).into_response();
        }
        // Borrowed texts are not copied.
        match &self.text {
            std::borrow::Cow::Borrowed(text) => {
                (common, [(CONTENT_TYPE, fixed(self.kind))], *text).into_response()
            }
            std::borrow::Cow::Owned(text) => {
                (common, [(CONTENT_TYPE, fixed(self.kind))], text.clone()).into_response()
            }
        }
    }
}

/// Of a hash in Base64 what can stand in a path.
fn short(hash: &str) -> String {
    hash.chars().filter(char::is_ascii_alphanumeric).take(HASH_CHARACTERS).collect()
}

fn etag(hash: &str) -> HeaderValue {
    let quoted = format!("\"{}\"", hash.replace(char::is_whitespace, ""));
    HeaderValue::try_from(quoted).unwrap_or(HeaderValue::from_static("\"weigh\""))
}

fn index(script: &str, css: &str) -> String {
    format!(
        "<!doctype html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>weigh</title>\n\
         <link rel=\"stylesheet\" href=\"{css}\">\n\
         <script src=\"{script}\" defer></script>\n\
         </head>\n\
         <body>\n\
         <noscript>This page draws itself with a script. `weigh top` and `weigh show` print the numbers.</noscript>\n\
         <div id=\"weigh\"></div>\n\
         </body>\n\
         </html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_with_contents_and_what_is_known_is_not_sent_again() {
        let assets = Assets::new();
        for file in &assets.files {
            assert!(assets.index.text.contains(&file.path), "{}", file.path);
            let answer = assets.answer(&file.path, &HeaderMap::new());
            assert_eq!(answer.status(), 200);
            assert!(answer.headers()[CACHE_CONTROL].to_str().unwrap().contains("immutable"));
            let mut known = HeaderMap::new();
            known.insert(IF_NONE_MATCH, answer.headers()[ETAG].clone());
            assert_eq!(assets.answer(&file.path, &known).status(), 304);
        }
        assert_ne!(short("abcdefghijklmnop+/1"), short("abcdefghijklmnoq+/1"));
        assert_eq!(assets.answer("/assets/live.js", &HeaderMap::new()).status(), 404);
        assert_eq!(assets.answer("/assets/../x", &HeaderMap::new()).status(), 404);
        assert_eq!(assets.answer("/jobs/some-job", &HeaderMap::new()).status(), 200);
    }
}
