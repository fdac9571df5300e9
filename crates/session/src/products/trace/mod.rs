//! A stream of events of the kernel.
//!
//! Reads what is wanted, checks all of it against this kernel before anything is attached, follows, and hands each
//! record to a sink of the caller's ([`RecordOutputs`]). While it runs, others may change what it follows
//! (`control`). What the command prints, and how it ends, is its own.

mod adaptation_plan;
mod adaptive;
mod attach_points;
mod buffer;
pub mod catalog;
mod control;
mod counters;
mod default_pairs;
mod description;
mod event_stream;
mod function_extent;
mod live_names;
mod local_stream;
mod modules;
mod origin;
mod outputs;
mod packets;
mod page_places;
mod patterns;
mod pipeline;
mod plan;
mod programs;
mod publish;
mod rate_watch;
mod remote_stream;
mod replay;
mod resolve;
mod rings;
mod run;
mod settings;
mod stream_host;
mod synthesis_spec;
mod tracepoint_groups;
mod trigger;

pub use control::{Answer, Ask, Change, ask_stream, follow_reports};
pub use outputs::{LiveReport, RecordOutputs};
pub use packets::{PacketsRequest, follow_packets};
pub use plan::{AttachPlan, TracePlan};
pub use publish::Publisher;
pub use replay::{Replay, ReplayPlan};
pub use run::TraceOutcome;
pub use settings::{SynthesisSettings, TraceSettings};
pub use stream_host::be_stream;
pub use trigger::{Trigger, TriggerSpec, be_trigger_helper, is_trigger_helper};
