//! Which server it is: Elasticsearch before or from 7.8 on, or OpenSearch.

use serde::Deserialize;

use crate::metrics::http::{HttpClient, Request};

/// A server, by what it can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Server {
    /// Types in paths, legacy templates, ILM: Elasticsearch 6.
    Six,
    /// Legacy templates, ILM: Elasticsearch 7.0 to 7.7.
    Seven,
    /// Data streams, ILM.
    #[default]
    Streams,
    /// Data streams, ISM.
    OpenSearch,
}

impl Server {
    /// What stands before `_bulk` in a path.
    pub fn type_path(self) -> &'static str {
        match self {
            Server::Six => "_doc/",
            _ => "",
        }
    }

    /// Whether documents go to a data stream; else to an alias that is rolled over.
    pub fn has_streams(self) -> bool {
        matches!(self, Server::Streams | Server::OpenSearch)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Root {
    version: RootVersion,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RootVersion {
    number: String,
    distribution: String,
}

/// Asks the server for its version.
pub fn ask(http: &HttpClient) -> Result<Server, String> {
    let url = http.target.url("/");
    let answer =
        http.send(Request { method: "GET", url, headers: Vec::new(), body: Vec::new() })?;
    let root: Root = serde_json::from_slice(&answer.body).unwrap_or_default();
    match answer.is_success() {
        true => parse(&root.version).ok_or_else(|| format!("no Elasticsearch: {}", answer.words())),
        false => Err(answer.words()),
    }
}

fn parse(version: &RootVersion) -> Option<Server> {
    let mut parts = version.number.split('.').map(|part| part.parse::<u32>().ok());
    let numbers = (parts.next()??, parts.next()??);
    Some(match numbers {
        _ if version.distribution == "opensearch" => Server::OpenSearch,
        (..6, _) => return None,
        (6, _) => Server::Six,
        (7, ..8) => Server::Seven,
        _ => Server::Streams,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_says_what_the_server_can() {
        let server = |number: &str, distribution: &str| {
            parse(&RootVersion { number: number.into(), distribution: distribution.into() })
        };
        for (number, expected) in [
            ("6.8.23", Some(Server::Six)),
            ("7.7.1", Some(Server::Seven)),
            ("7.8.0", Some(Server::Streams)),
            ("9.0.0-SNAPSHOT", Some(Server::Streams)),
            ("5.6.0", None),
            ("", None),
        ] {
            assert_eq!(server(number, ""), expected, "{number}");
        }
        assert_eq!(server("2.19.1", "opensearch"), Some(Server::OpenSearch));
    }
}
