//! Reads and writes, by file.
