//! `weigh io mount`: amounts against what the programs themselves know, results against those of the folder
//! that is served, and its ends.

mod served;
mod support;
