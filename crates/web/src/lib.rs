//! The live page: the node and its jobs over HTTP on loopback, elsewhere over TLS alone.
//!
//! Reads recordings by `keep`, and what the binary hands in: values of the node ([`NodeFeed`]) and the data of a
//! recording's page. Emits JSON, columns of series, events and the page; refuses requests without the token, for
//! another host, or from another site. It measures nothing itself and rests while nobody looks.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod access;
mod activity;
mod api;
mod assets;
mod busiest;
mod busy_jobs;
mod connection;
mod decimate;
mod error;
mod event;
mod feed;
mod folder;
mod growing;
mod jobs;
mod live_job;
mod names;
mod node;
mod node_change;
#[cfg(test)]
mod openapi;
mod part_totals;
mod recording_page;
mod routes;
#[cfg(test)]
mod schema_check;
mod scrape;
mod series;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod tokens;
mod zoom;

pub use busy_jobs::BusyJobs;
pub use error::WebError;
pub use feed::{FeedEvent, FeedOpener, NodeFeed};
pub use recording_page::recording_page;
pub use routes::MetricsText;
pub use scrape::{ScrapeBoard, ScrapePlace, ScrapeServer, SynthesisText};
pub use server::{Listening, PageAudience, ServeSettings, Server, TlsRenewal, check_address};
pub use tls::{TlsError, TlsIdentity};
pub use tokens::{TokenAuthority, TokenGrant};
