//! What `weigh doctor` found, as text for the terminal.

mod io;
mod table;

pub use io::render as render_io;
pub use table::{render, render_short};
