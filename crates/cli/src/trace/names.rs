//! Names for the addresses of stacks.
//!
//! Reads the kernel's list of its symbols when the first of its addresses comes, and what processes have in
//! their memory while they live; emits names. What nobody can name stays an address: functions of modules, a
//! kernel that hides its symbols, a process that ended before it was looked at.

use std::collections::HashMap;
use std::rc::Rc;

use weigh_collect::inspect::UserNames;
use weigh_kernel::Symbols;
use weigh_trace::value::frames;

const SYMBOLS: &str = "/proc/kallsyms";

/// What is known.
#[derive(Default)]
pub struct Names {
    kernel: Option<Kernel>,
    user: UserNames,
    recorded: Option<Recorded>,
}

/// Names that a recording has: in its records numbers stand for them, counted from 1.
#[derive(Default)]
struct Recorded {
    names: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u64>,
}

/// The kernel's symbols by address, and what was asked for.
struct Kernel {
    symbols: Option<Symbols>,
    names: HashMap<u64, Rc<str>>,
}

impl Names {
    /// Those of a recording, which will be told.
    pub fn of_recording() -> Names {
        Names { recorded: Some(Recorded::default()), ..Names::default() }
    }

    /// What stands for a name of a recording.
    pub fn number(&mut self, name: &str) -> u64 {
        let Recorded { names, numbers } = self.recorded.get_or_insert_default();
        if let Some(number) = numbers.get(name) {
            return *number;
        }
        let name: Rc<str> = name.into();
        names.push(Rc::clone(&name));
        numbers.insert(name, names.len() as u64);
        names.len() as u64
    }

    /// The functions of a stack, the innermost first.
    pub fn of_stack(&mut self, stack: &[u8], is_user: bool, tgid: u32) -> Vec<Rc<str>> {
        if let Some(Recorded { names, .. }) = &self.recorded {
            let name = |number: u64| names.get(number.checked_sub(1)? as usize).cloned();
            return frames(stack).filter_map(name).collect();
        }
        match is_user {
            true => frames(stack).map(|frame| self.user.name(tgid, frame)).collect(),
            false => {
                let kernel = self.kernel.get_or_insert_with(Kernel::read);
                frames(stack).map(|frame| kernel.name(frame)).collect()
            }
        }
    }

    /// A process will be asked for, perhaps when it is gone; with a stack of its own, that is of what it has now.
    pub fn meet(&mut self, tgid: u32, has_stack: bool) {
        self.user.meet(tgid, has_stack);
    }

    /// What comes from now on may be of processes that have changed.
    pub fn next_round(&mut self) {
        self.user.next_round();
    }
}

impl Kernel {
    fn read() -> Kernel {
        let text = std::fs::read(SYMBOLS).unwrap_or_default();
        Kernel { symbols: Symbols::parse(&text).ok(), names: HashMap::new() }
    }

    fn name(&mut self, address: u64) -> Rc<str> {
        let Kernel { symbols, names } = self;
        let name = || match symbols.as_ref().and_then(|symbols| function(symbols, address)) {
            Some((name, behind)) => format!("{name}+{behind:#x}").into(),
            None => format!("{address:#x}").into(),
        };
        Rc::clone(names.entry(address).or_insert_with(name))
    }
}

/// The function that an address lies in, and how far. What lies behind the last of all symbols is a module's.
fn function(symbols: &Symbols, address: u64) -> Option<(&str, u64)> {
    let list = symbols.list();
    let behind = list.partition_point(|symbol| symbol.address <= address);
    let last = list.get(behind.checked_sub(1)?)?;
    let is_inside = behind < list.len() && last.kind == weigh_kernel::Kind::Code;
    is_inside.then(|| (last.name.as_str(), address - last.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_function_before_it() {
        let text = b"1000 T _text\n1000 T first\n1010 t second\n1020 D data\n1030 T last\n";
        let symbols = Symbols::parse(text).expect("symbols");
        let named =
            |address| function(&symbols, address).map(|(name, far)| format!("{name}+{far}"));
        assert_eq!(named(0x1013).as_deref(), Some("second+3"));
        assert_eq!(named(0x1025), None, "data is no function");
        assert_eq!(named(0x1031), None, "a module's, perhaps");
        assert_eq!(named(0xfff), None);
    }
}
