//! System calls, and what each cost.
