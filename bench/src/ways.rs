//! The ways in which weigh can follow a job: each mechanism at each of its levels.
//!
//! Derived from weigh's own declaration, so that a level that is added there is measured here.

use std::fmt;

use weigh_schema::following::{FOLLOWINGS, Following, Level};

/// A mechanism at a level.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The mechanism.
    pub following: &'static Following,
    /// How deep it looks.
    pub level: Level,
}

impl Way {
    /// All of them, the best mechanism first.
    pub fn all() -> Vec<Way> {
        let levels = |following: &'static Following| {
            following.levels.iter().map(move |level| Way { following, level: *level })
        };
        FOLLOWINGS.iter().flat_map(levels).collect()
    }

    /// The options of `weigh run` that choose it.
    pub fn options(self) -> Vec<String> {
        let level = self.level.number().to_string();
        ["--mechanism", self.following.name, "--level", &level].map(String::from).to_vec()
    }

    /// The same, and where weigh can only look now and then, as often as it can.
    pub fn options_closely(self) -> Vec<String> {
        let mut options = self.options();
        if self.level == Level::Query {
            options.extend(["--interval", "10ms"].map(String::from));
        }
        options
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.following.name, self.level.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_is_there_at_each_of_its_levels() {
        let names: Vec<String> = Way::all().iter().map(Way::to_string).collect();
        for following in FOLLOWINGS {
            for level in following.levels {
                let name = format!("{} {}", following.name, level.number());
                assert_eq!(names.iter().filter(|way| **way == name).count(), 1, "{name}");
            }
        }
    }
}
