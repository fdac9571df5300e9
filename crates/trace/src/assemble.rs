//! BPF instructions, and jumps to places that are not known yet.
//!
//! Emits the kernel's encoding (Documentation/bpf/standardization/instruction-set.rst): eight bytes
//! each. Refuses programs in which a jump is longer than it can be.

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum R {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The end of the program's 512 bytes of stack.
    Frame,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// What is done with two numbers.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Divide = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Modulo = 0x90,
    ExclusiveOr = 0xa0,
    Move = 0xb0,
    ShiftRightSigned = 0xc0,
}

/// When is jumped.
#[derive(Clone, Copy)]
pub(crate) enum When {
    Equal = 0x10,
    Greater = 0x20,
    AtLeast = 0x30,
    Unequal = 0x50,
    GreaterSigned = 0x60,
    AtLeastSigned = 0x70,
    Less = 0xa0,
    AtMost = 0xb0,
    LessSigned = 0xc0,
    AtMostSigned = 0xd0,
}

/// What the kernel does for a program, by its number in `enum bpf_func_id`.
#[derive(Clone, Copy)]
pub(crate) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    CurrentCpu = 8,
    CurrentTgidTid = 14,
    CurrentUser = 15,
    CurrentComm = 16,
    CounterValue = 55,
    Stack = 67,
    ReadUser = 112,
    ReadKernel = 113,
    ReadUserText = 114,
    ReadKernelText = 115,
    TimeSinceBoot = 125,
    RingOutput = 130,
    TaskStorage = 156,
    CurrentTask = 158,
    DynptrRead = 201,
}

/// What cannot be made a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program is too long: a jump of {0} instructions")]
pub struct TooFar(i64);

/// A program that is being written.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<u64>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

const STACK_SIZES: [(u32, u8); 4] = [(1, 0x10), (2, 0x08), (4, 0x00), (8, 0x18)];

fn size_bits(bytes: u32) -> u8 {
    STACK_SIZES.iter().find(|(size, _)| *size == bytes).map_or(0x18, |(_, bits)| *bits)
}

impl Assembler {
    fn emit(&mut self, code: u8, to: R, from: R, offset: i16, value: i32) {
        let registers = u64::from(to as u8 | (from as u8) << 4);
        let offset = u64::from(offset.cast_unsigned());
        let value = u64::from(value.cast_unsigned());
        self.code.push(u64::from(code) | registers << 8 | offset << 16 | value << 32);
    }

    /// A place that has not been reached yet.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// This is the place.
    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Whether anything jumps there: the kernel refuses code that is never reached.
    pub(crate) fn is_used(&self, label: Label) -> bool {
        self.jumps.iter().any(|(_, to)| *to == label)
    }

    /// `to = from`, by an operation of 64 bits.
    pub(crate) fn with(&mut self, op: Op, to: R, from: R) {
        self.emit(0x0f | op as u8, to, from, 0, 0);
    }

    /// The same with a constant.
    pub(crate) fn with_constant(&mut self, op: Op, to: R, value: i32) {
        self.emit(0x07 | op as u8, to, R::R0, 0, value);
    }

    /// The lower half of a register, as a number: the verifier takes what was calculated of addresses for an address.
    pub(crate) fn lower_half(&mut self, of: R) {
        self.emit(0xbc, of, of, 0, 0);
    }

    /// A number in the order of the network, as the machine has it; bits above are 0.
    pub(crate) fn network_to_host(&mut self, to: R, bytes: i32) {
        self.emit(0xdc, to, R::R0, 0, bytes * 8);
    }

    /// A constant of any size.
    pub(crate) fn constant(&mut self, to: R, value: u64) {
        match i32::try_from(value.cast_signed()) {
            Ok(value) => self.with_constant(Op::Move, to, value),
            Err(_) => self.wide(to, 0, value as u32, (value >> 32) as u32),
        }
    }

    fn wide(&mut self, to: R, kind: u8, low: u32, high: u32) {
        let registers = u64::from(to as u8 | kind << 4);
        self.code.push(0x18 | registers << 8 | u64::from(low) << 32);
        self.code.push(u64::from(high) << 32);
    }

    /// A map, by its descriptor.
    pub(crate) fn map(&mut self, to: R, map: i32) {
        self.wide(to, 1, map.cast_unsigned(), 0);
    }

    /// A place in the one value of an array.
    pub(crate) fn map_value(&mut self, to: R, map: i32, offset: u32) {
        self.wide(to, 2, map.cast_unsigned(), offset);
    }

    /// `to = *(from + offset)`
    pub(crate) fn load(&mut self, to: R, from: R, offset: i16, bytes: u32) {
        self.emit(0x61 | size_bits(bytes), to, from, offset, 0);
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, to: R, offset: i16, from: R, bytes: u32) {
        self.emit(0x63 | size_bits(bytes), to, from, offset, 0);
    }

    /// `*(to + offset) = value`
    pub(crate) fn store_constant(&mut self, to: R, offset: i16, value: i32, bytes: u32) {
        self.emit(0x62 | size_bits(bytes), to, R::R0, offset, value);
    }

    /// `from = fetch_add(to + offset, from)`, of 64 bits, at once.
    pub(crate) fn fetch_add(&mut self, to: R, offset: i16, from: R) {
        self.emit(0xdb, to, from, offset, 0x01);
    }

    /// `r0 = compare_exchange(to + offset, r0, from)`, of 64 bits, at once.
    pub(crate) fn compare_exchange(&mut self, to: R, offset: i16, from: R) {
        self.emit(0xdb, to, from, offset, 0xf1);
    }

    /// `from = exchange(to + offset, from)`, of 64 bits, at once.
    pub(crate) fn exchange(&mut self, to: R, offset: i16, from: R) {
        self.emit(0xdb, to, from, offset, 0xe1);
    }

    pub(crate) fn call(&mut self, helper: Helper) {
        self.emit(0x85, R::R0, R::R0, 0, helper as i32);
    }

    /// A function of the kernel's own, by its number among the kernel's types.
    pub(crate) fn call_function(&mut self, number: u32) {
        self.emit(0x85, R::R0, R::R2, 0, number.cast_signed());
    }

    pub(crate) fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05, R::R0, R::R0, 0, 0);
    }

    pub(crate) fn jump_if(&mut self, when: When, a: R, b: R, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x0d | when as u8, a, b, 0, 0);
    }

    pub(crate) fn jump_if_constant(&mut self, when: When, a: R, b: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05 | when as u8, a, R::R0, 0, b);
    }

    /// Ends the program with 0.
    pub(crate) fn exit(&mut self) {
        self.with_constant(Op::Move, R::R0, 0);
        self.emit(0x95, R::R0, R::R0, 0, 0);
    }

    /// The program, with every jump filled in.
    pub(crate) fn finish(mut self) -> Result<Vec<u64>, TooFar> {
        for (at, label) in &self.jumps {
            let to = self.labels[label.0].unwrap_or(self.code.len());
            let far = to as i64 - (*at as i64 + 1);
            let offset = i16::try_from(far).map_err(|_| TooFar(far))?;
            self.code[*at] |= u64::from(offset.cast_unsigned()) << 16;
        }
        Ok(self.code)
    }
}
