//! Names of functions and threads of this machine.
//!
//! Reads the kernel's list of its symbols when the first of its addresses comes, and what processes have in
//! their memory while they live; emits names. What nobody can name stays an address: functions of modules, a
//! kernel that hides its symbols, a process that ended before it was looked at.

use std::collections::HashMap;
use std::rc::Rc;

use weigh_collect::inspect::UserNames;
use weigh_kernel::Symbols;
use weigh_trace::sink::{Meaning, Symbolizer};

const SYMBOLS: &str = "/proc/kallsyms";

/// What numbers mean in the records of a stream that runs on this machine.
pub fn live_meaning(began_ns: u64, epoch_ns: i64) -> Meaning {
    Meaning::live(began_ns, epoch_ns, Box::<LiveNames>::default(), comm)
}

/// The name of a thread that lives, in the form that keeps its bytes; empty if it does not.
fn comm(tid: u32) -> String {
    weigh_collect::host::process_name(tid).unwrap_or_default()
}

/// What is known of this machine's functions.
#[derive(Default)]
struct LiveNames {
    kernel: Option<Kernel>,
    user: UserNames,
}

/// The kernel's symbols by address, and what was asked for.
struct Kernel {
    symbols: Option<Symbols>,
    names: HashMap<u64, Rc<str>>,
}

impl Symbolizer for LiveNames {
    fn kernel_name(&mut self, address: u64) -> Rc<str> {
        self.kernel.get_or_insert_with(Kernel::read).name(address)
    }

    fn user_name(&mut self, tgid: u32, address: u64) -> Rc<str> {
        self.user.name(tgid, address)
    }

    fn meet(&mut self, tgid: u32, has_stack: bool) {
        self.user.meet(tgid, has_stack);
    }

    fn next_round(&mut self) {
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
    let is_inside = behind < list.len() && last.kind == weigh_kernel::SymbolContent::Code;
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

    #[test]
    fn a_living_thread_has_a_name() {
        assert!(!comm(std::process::id()).is_empty());
        assert_eq!(comm(u32::MAX), "");
    }
}
