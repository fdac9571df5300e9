//! A stream of events of the kernel.
