//! What was typed, as settings of the products.

mod agent;
mod calls;
mod io;
mod run;
mod trace;
