//! What an event hands over, and where: its arguments, and how a program comes to be called.

use crate::operand::Operand;
use crate::syscall::ArgumentKind;

/// A value that an event hands over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: u32,
    /// Where it lies in what the program is given, in bytes; of a program's, its number among the operands
    /// of each site.
    pub slot: i16,
    /// Whether it can be below 0, if nobody knows its type.
    pub is_signed: bool,
    /// Why it cannot be had, if it cannot.
    pub why_not: Option<String>,
    /// Of a system call: where its value lies, and what it is.
    pub of_call: Option<CallArgument>,
}

/// An argument of a system call, which the kernel's types do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallArgument {
    /// Where it lies.
    pub place: CallPlace,
    /// What it is.
    pub kind: ArgumentKind,
    /// Whether it is a field where none are named.
    pub is_default: bool,
}

/// Where a value of a system call lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPlace {
    /// In what the program is given.
    Given,
    /// In the registers that the slot leads to, so many bytes behind their beginning.
    Register(u32),
    /// In what was saved as the call began: a text.
    SavedText {
        /// Where, in bytes behind the beginning of what was saved.
        saved: u32,
        /// Where its address is there.
        saved_register: u32,
        /// In which register that was.
        register: u32,
    },
    /// In what was saved as the call began: a register.
    SavedRegister {
        /// Where, in bytes behind the beginning of what was saved.
        saved: u32,
        /// Which.
        register: u32,
    },
    /// How long the call took, by what was saved as it began.
    Duration,
}

/// How a program comes to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attach {
    /// At a tracepoint, by the type of its programs.
    Tracepoint {
        /// Which type.
        btf_id: u32,
        /// Whose, if it is a module's.
        module: Option<String>,
    },
    /// At a tracepoint, by its name.
    Raw {
        /// The name.
        name: String,
    },
    /// At the begin and the end of system calls: what is known at the begin is kept until the end.
    Call {
        /// The type of the tracepoint where they begin.
        enter: u32,
        /// The type of the one where they end.
        exit: u32,
        /// Bytes that are kept of each.
        saved_bytes: u32,
    },
    /// At a function of the kernel.
    Function {
        /// Which type.
        btf_id: u32,
        /// Whose, if it is a module's.
        module: Option<String>,
        /// When it returns.
        returns: bool,
    },
    /// At an instruction of the kernel.
    Instruction {
        /// The function that it is of, with its module if it is one's.
        name: String,
        /// How far behind its beginning.
        plus: u64,
    },
    /// In a program or library.
    User {
        /// The file.
        path: String,
        /// Where in it: points may have several places.
        sites: Vec<Site>,
        /// When the function there returns.
        returns: bool,
    },
}

/// A place in a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Where, in bytes from the file's beginning.
    pub offset: u64,
    /// Where the number lies that says to the program how many look at it; 0 if nowhere.
    pub semaphore: u64,
    /// Where the arguments are.
    pub operands: Vec<Operand>,
}

/// An event, as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// How a program comes to be called.
    pub attach: Attach,
    /// What it is given.
    pub arguments: Vec<Argument>,
    /// The system call that alone is meant.
    pub call: Option<OneCall>,
}

impl Signature {
    /// Whether the event happens in a program, not in the kernel.
    pub fn is_in_program(&self) -> bool {
        matches!(self.attach, Attach::User { .. })
    }
}

/// One system call among all, at a tracepoint that all of them pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneCall {
    /// Its number.
    pub number: u32,
    /// Which argument of the tracepoint has the number.
    pub number_of: &'static str,
}
