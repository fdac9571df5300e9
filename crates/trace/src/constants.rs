//! The constants of a filter, apart from its form: they can be changed without a new program.
//!
//! Reads checked filters; emits their constants, in the order in which programs meet them.

use crate::condition::{Right, Test};

impl Test {
    /// The numbers that it compares with, from left to right.
    pub fn constants(&self) -> Vec<u64> {
        let mut found = Vec::new();
        self.clone().visit(&mut |constant| found.push(*constant));
        found
    }

    /// Whether it differs from another one in its constants at most.
    pub fn has_form_of(&self, other: &Test) -> bool {
        let form = |test: &Test| {
            let mut test = test.clone();
            test.visit(&mut |constant| *constant = 0);
            test
        };
        form(self) == form(other)
    }

    fn visit(&mut self, with: &mut impl FnMut(&mut u64)) {
        match self {
            Test::And(a, b) | Test::Or(a, b) => {
                a.visit(with);
                b.visit(with);
            }
            Test::Not(of) => of.visit(with),
            Test::Number { right: Right::Constant(value), .. } => with(value),
            Test::Number { .. } | Test::Text { .. } | Test::Address { .. } => {}
        }
    }
}
