//! Numbers of one part of the kernel.

use std::collections::BTreeMap;

use crate::unit::Number;

/// Numbers of one part of the kernel, by their names in base units.
pub type Numbers = BTreeMap<String, Number>;
