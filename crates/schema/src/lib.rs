//! The words of weigh, and nothing else: what is counted, in which unit, how sure a value is,
//! and the shape of what a measured job leaves behind.
//!
//! Every other crate knows this one; it knows none of them. It does no I/O and holds no `unsafe`.
//!
//! * [`Counter`]: the raw numbers a collector reads from the kernel.
//! * [`Metric`]: what users see, declared once; summary keys, Parquet columns, help texts and
//!   `docs/metrics.md` are derived from [`METRICS`].
//! * [`event`]: what `collect` hands to `account`.
//! * [`summary`] and [`recording`]: what `account` hands to `keep`, and `keep` to `show`.
//! * [`subsystem`] and [`library`]: what calls are accounted to, and what libweigh and the kernel
//!   side share.
//! * [`configuration`] and [`resolved_config`]: what users define, and how programs are told of it.
//! * [`histogram`]: how many values are about how large.
//! * [`io`]: what is kept of each file and process.
//! * [`membership`]: how far a thread has come in a job.
//! * [`printable`]: text from outside, made safe for a terminal.
//! * [`record`]: what the kernel side tells of a job.
//! * [`profile`] and [`region`]: regions that programs name: how a profile lies in memory, and what is made of it.
//! * [`ring`]: how the rings lie in memory that events come through.
//! * [`rule`]: what rules over metrics say.
//! * [`stream`]: what the agent's streams hold, and how clients ask for it.
//! * [`synthesis`]: what is found in several events together.
//! * [`trace`]: what a recording of events says of itself.
//! * [`availability`] and [`doctor`]: what can run here, and why not.
//! * [`amount`]: the sizes and durations people write.

#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod allowed;
pub mod amount;
pub mod announcement;
pub mod availability;
pub mod base64;
pub mod busiest;
pub mod byte_text;
pub mod call;
pub mod call_row;
pub mod configuration;
pub mod control;
mod counter;
pub mod custom_subsystem;
pub mod doctor;
pub mod event;
pub mod explain;
pub mod following;
pub mod histogram;
pub mod intrusiveness;
pub mod io;
pub mod library;
pub mod limit;
pub mod membership;
mod metric;
mod named;
pub mod node_metric;
pub mod number_names;
pub mod printable;
pub mod profile;
pub mod program_profile;
pub mod published;
pub mod quality;
pub mod record;
pub mod recording;
pub mod region;
pub mod resolved_config;
pub mod ring;
pub mod rule;
pub mod running_job;
pub mod sample;
mod scope;
pub mod sink;
pub mod source_traits;
pub mod stream;
pub mod subsystem;
pub mod summary;
pub mod synthesis;
pub mod top;
pub mod top_detail;

pub mod trace;
mod trace_query;
mod unit;
pub mod update;
mod zero;

pub use counter::{Counter, CounterValues};
pub use metric::{
    Formula, Group, METRICS, Metric, MetricKind, MetricScope, metric_name, metric_of_word, nearest,
    nearest_metrics,
};
pub use node_metric::{HOST_METRICS, NODE_METRICS, metric};
pub use printable::{Printable, ShellWords};
pub use quality::{Mechanism, Quality};
pub use summary::Value;
pub use unit::{Number, Unit};
