//! `weigh trace`: kernel events as a user asks for them, up to the programs that write them down.
//!
//! Reads the words of events, filters and sampling, and the kernel's own types (BTF); emits checked
//! probes, BPF programs made for just these probes, and what is needed to read their records. Refuses
//! what is written wrongly or does not exist, with its place and the nearest names that do. Pure: what
//! is loaded, attached and read is `collect`'s.
//!
//! [`event`], [`filter`], [`sampling`], [`buffer_spec`], [`predicate`]: as it is written. [`probe`], [`condition`], [`path_resolve`]: checked.
//! [`foreign`], [`syscall`], [`vocabulary`]: events as perf and bpftrace write them, system calls, names of numbers.
//! [`packet`], [`ip_prefix`]: names over the headers of packets; `tcpdump`: its syntax, as filters of weigh.
//! [`policy`], [`owner`]: what a user without rights may follow.
//! [`generate`]: as a program. [`record`], [`state`]: what the program and its readers share.
//! [`sink`]: what records go to. [`synthesis`]: what looks at several records together. [`replay`]: records that come from a file.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod adaptation;
mod assemble;
pub mod btf;
pub mod buffer_spec;
pub mod condition;
mod constants;
mod content;
pub mod counter;
mod cursor;
mod defaults;
pub mod error;
pub mod event;
pub mod executable;
pub mod field_kind;
pub mod filter;
mod filter_parser;
mod filter_text;
pub mod foreign;
pub mod generate;
pub mod ip_prefix;
mod number_range;
pub mod operand;
pub mod owner;
mod packet;
pub mod packet_header;
mod packet_resolve;
pub mod packet_sizes;
pub mod path;
pub mod path_resolve;
pub mod policy;
pub mod predicate;
pub mod probe;
pub mod record;
pub mod replay;
pub mod sampling;
pub mod sets;
pub mod signature;
pub mod sink;
pub mod state;
pub mod suggest;
pub mod synthesis;
pub mod syscall;
mod tcpdump;
mod thread_bits;
pub mod usdt;
pub mod value;
pub mod vocabulary;

pub use assemble::TooFar;
