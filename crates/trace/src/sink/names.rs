//! Names for the addresses of stacks: those of a recording, or those that a [`Symbolizer`] finds on this machine.

use std::collections::HashMap;
use std::rc::Rc;

use crate::value::frames;

/// Finds names for addresses, on the machine where they were recorded. An address without a name stays a number.
pub trait Symbolizer {
    /// The name of an address of the kernel.
    fn kernel_name(&mut self, address: u64) -> Rc<str>;

    /// The name of an address in a process.
    fn user_name(&mut self, tgid: u32, address: u64) -> Rc<str>;

    /// A process will be asked for, perhaps when it is gone; with a stack of its own, that is of what it has now.
    fn meet(&mut self, tgid: u32, has_stack: bool);

    /// What comes from now on may be of processes that have changed.
    fn next_round(&mut self);
}

/// Names of the functions in stacks.
pub enum StackNames {
    /// Of a stream that runs.
    Live(Box<dyn Symbolizer>),
    /// Of a recording.
    Recorded(RecordedNames),
}

/// Names that a recording has: in its records numbers stand for them, counted from 1.
#[derive(Default)]
pub struct RecordedNames {
    names: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u64>,
}

impl RecordedNames {
    fn number(&mut self, name: &str) -> u64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name: Rc<str> = name.into();
        self.names.push(Rc::clone(&name));
        self.numbers.insert(name, self.names.len() as u64);
        self.names.len() as u64
    }

    fn name(&self, number: u64) -> Option<Rc<str>> {
        self.names.get(number.checked_sub(1)? as usize).cloned()
    }
}

impl StackNames {
    /// What stands for a name of a recording; none if the names are those of this machine.
    pub fn number(&mut self, name: &str) -> Option<u64> {
        match self {
            StackNames::Recorded(recorded) => Some(recorded.number(name)),
            StackNames::Live(_) => None,
        }
    }

    /// The functions of a stack, the innermost first.
    pub fn stack(&mut self, stack: &[u8], is_user: bool, tgid: u32) -> Vec<Rc<str>> {
        match self {
            StackNames::Recorded(recorded) => {
                frames(stack).filter_map(|number| recorded.name(number)).collect()
            }
            StackNames::Live(live) if is_user => {
                frames(stack).map(|frame| live.user_name(tgid, frame)).collect()
            }
            StackNames::Live(live) => frames(stack).map(|frame| live.kernel_name(frame)).collect(),
        }
    }

    /// See [`Symbolizer::meet`].
    pub fn meet(&mut self, tgid: u32, has_stack: bool) {
        if let StackNames::Live(live) = self {
            live.meet(tgid, has_stack);
        }
    }

    /// See [`Symbolizer::next_round`].
    pub fn next_round(&mut self) {
        if let StackNames::Live(live) = self {
            live.next_round();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_the_names_of_a_recording() {
        let mut names = StackNames::Recorded(RecordedNames::default());
        let numbers = ["b", "a", "b"].map(|name| names.number(name).unwrap());
        assert_eq!(numbers, [1, 2, 1]);
        let stack: Vec<u8> = [2u64, 1, 3].iter().flat_map(|number| number.to_le_bytes()).collect();
        let found = names.stack(&stack, true, 1);
        assert_eq!(found.iter().map(|name| &**name).collect::<Vec<_>>(), ["a", "b"]);
    }
}
