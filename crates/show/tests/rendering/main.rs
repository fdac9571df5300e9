//! Tables and pages, held to reports, invented recordings and files of the repository.
#![allow(clippy::unwrap_used)]

mod calls;
mod common {
    pub mod events;
    pub mod explained;
    pub mod golden;
    pub mod pages;
    pub mod sample;
    pub mod sample_moments;
    pub mod top;
    pub mod typescript;
}
mod explain;
mod generated_types;
mod io_details;
mod io_table;
mod report;
mod table;
mod trace_page;
