//! One job: its process tree, its limits, and what it leaves.
