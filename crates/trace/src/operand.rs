//! Where a value lies in a program at the moment of a probe: a register, memory behind one, a constant.
//!
//! Reads what compilers write into the notes of points (`-4@%edi`, `8@-16(%rbp,%rax,4)`, `4@$5`; on aarch64
//! `-4@w0`, `8@[sp, 16]`, `4@5`); emits places in the registers that the kernel hands over (`struct pt_regs`).
//! What cannot be followed is kept as it was written.

/// Where a value lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// In a register.
    Register {
        /// Where the kernel hands it over, in bytes.
        slot: i16,
        /// Its lowest bytes.
        size: Size,
    },
    /// In memory.
    Memory {
        /// The register that holds its address, or a part of it.
        base: i16,
        /// A register that is added so many times.
        index: Option<(i16, u8)>,
        /// And that.
        plus: i32,
        /// What is there.
        size: Size,
    },
    /// Nowhere: it is always that.
    Constant(u64),
    /// In a place that cannot be followed, as it was written.
    Other(String),
}

/// How large a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many bytes it has.
    pub bytes: u32,
    /// Whether it can be below 0.
    pub is_signed: bool,
}

impl Size {
    /// A whole register.
    pub const WHOLE: Size = Size { bytes: 8, is_signed: false };
}

/// Where a register is handed over, in bytes; none if there is none of that name.
type Registers = fn(&str) -> Option<i16>;

const REGISTERS: Registers = if cfg!(target_arch = "aarch64") { of_aarch64 } else { of_x86_64 };

/// `%rax`, `%eax`, `%ax`, `%al`, and so on.
fn of_x86_64(name: &str) -> Option<i16> {
    const NAMES: [([&str; 4], i16); 16] = [
        (["r15", "r15d", "r15w", "r15b"], 0),
        (["r14", "r14d", "r14w", "r14b"], 8),
        (["r13", "r13d", "r13w", "r13b"], 16),
        (["r12", "r12d", "r12w", "r12b"], 24),
        (["rbp", "ebp", "bp", "bpl"], 32),
        (["rbx", "ebx", "bx", "bl"], 40),
        (["r11", "r11d", "r11w", "r11b"], 48),
        (["r10", "r10d", "r10w", "r10b"], 56),
        (["r9", "r9d", "r9w", "r9b"], 64),
        (["r8", "r8d", "r8w", "r8b"], 72),
        (["rax", "eax", "ax", "al"], 80),
        (["rcx", "ecx", "cx", "cl"], 88),
        (["rdx", "edx", "dx", "dl"], 96),
        (["rsi", "esi", "si", "sil"], 104),
        (["rdi", "edi", "di", "dil"], 112),
        (["rsp", "esp", "sp", "spl"], 152),
    ];
    let name = name.strip_prefix('%')?;
    NAMES.iter().find(|(names, _)| names.contains(&name)).map(|(_, slot)| *slot)
}

/// `x0` to `x30`, `w0` to `w30`, `sp`.
fn of_aarch64(name: &str) -> Option<i16> {
    if name == "sp" {
        return Some(31 * 8);
    }
    let number: i16 = name.strip_prefix(['x', 'w'])?.parse().ok()?;
    (0..=30).contains(&number).then_some(number * 8)
}

impl Operand {
    /// Reads one.
    pub fn parse(text: &str) -> Operand {
        Operand::parse_with(text, REGISTERS)
    }

    fn parse_with(text: &str, registers: Registers) -> Operand {
        followed(text, registers).unwrap_or_else(|| Operand::Other(text.to_string()))
    }

    /// Whether it can be below 0.
    pub fn is_signed(&self) -> bool {
        match self {
            Operand::Register { size, .. } | Operand::Memory { size, .. } => size.is_signed,
            Operand::Constant(value) => value.cast_signed() < 0,
            Operand::Other(_) => false,
        }
    }
}

fn followed(text: &str, registers: Registers) -> Option<Operand> {
    let (size, place) = text.split_once('@')?;
    let bytes: i32 = size.parse().ok()?;
    let size = Size { bytes: bytes.unsigned_abs(), is_signed: bytes < 0 };
    if !matches!(size.bytes, 1 | 2 | 4 | 8) {
        return None;
    }
    let register = |name: &str| registers(name.trim());
    if let Some(inside) = place.strip_prefix('[') {
        let (base, plus) = in_brackets(inside.strip_suffix(']')?)?;
        return Some(Operand::Memory { base: register(base)?, index: None, plus, size });
    }
    if let Some((plus, inside)) = place.split_once('(') {
        let plus = if plus.is_empty() { 0 } else { plus.parse().ok()? };
        let (base, index) = in_parentheses(inside.strip_suffix(')')?, &register)?;
        return Some(Operand::Memory { base, index, plus, size });
    }
    match place.strip_prefix('$').unwrap_or(place).parse() {
        Ok(number) => Some(Operand::Constant(cut(number, size))),
        Err(_) => Some(Operand::Register { slot: register(place)?, size }),
    }
}

/// `x1` or `x1, 8`: the register, and what is added.
fn in_brackets(inside: &str) -> Option<(&str, i32)> {
    match inside.split_once(',') {
        None => Some((inside, 0)),
        Some((base, plus)) => Some((base, plus.trim().trim_start_matches('#').parse().ok()?)),
    }
}

/// `%rdx`, `%rdx,%rcx` or `%rdx,%rcx,4`: the register, and the other one with how often it is added.
fn in_parentheses(
    inside: &str,
    register: &impl Fn(&str) -> Option<i16>,
) -> Option<(i16, Option<(i16, u8)>)> {
    let mut parts = inside.split(',');
    let base = register(parts.next()?)?;
    let index = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => None,
        (Some(index), scale, None) => {
            let scale = scale.map_or(Some(1), |scale| scale.parse().ok())?;
            Some((register(index)?, [1, 2, 4, 8].contains(&scale).then_some(scale)?))
        }
        _ => return None,
    };
    Some((base, index))
}

/// A constant as its size holds it.
fn cut(number: i64, size: Size) -> u64 {
    let unused = 64 - 8 * size.bytes;
    let moved = number << unused;
    if size.is_signed { (moved >> unused).cast_unsigned() } else { moved.cast_unsigned() >> unused }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Operand {
        Operand::parse_with(text, of_x86_64)
    }

    #[test]
    fn places_of_all_kinds_are_read() {
        let int = Size { bytes: 4, is_signed: true };
        let long = Size { bytes: 8, is_signed: false };
        assert_eq!(parse("-4@%edi"), Operand::Register { slot: 112, size: int });
        assert_eq!(parse("8@%r8"), Operand::Register { slot: 72, size: long });
        let behind = |base, index, plus, size| Operand::Memory { base, index, plus, size };
        assert_eq!(parse("-4@-1204(%rbp)"), behind(32, None, -1204, int));
        assert_eq!(parse("8@(%rsp)"), behind(152, None, 0, long));
        assert_eq!(parse("8@8(%rdx,%rcx,4)"), behind(96, Some((88, 4)), 8, long));
        assert_eq!(parse("8@8(%rdx,%rcx)"), behind(96, Some((88, 1)), 8, long));
        assert_eq!(parse("-4@$-5"), Operand::Constant((-5i64).cast_unsigned()));
        assert_eq!(parse("1@$-1"), Operand::Constant(255));
    }

    #[test]
    fn what_can_not_be_followed_is_kept() {
        for text in [
            "",
            "@",
            "8@",
            "4@%xmm0",
            "3@%rax",
            "8@counter(%rip)",
            "8f@%xmm0",
            "8@8(%rdx,%rcx,3)",
            "8@(%rax",
            "8@%fs:16",
            "4@$x",
            "8@99999999999(%rax)",
            "-2147483648@%rax",
        ] {
            assert_eq!(parse(text), Operand::Other(text.to_string()));
        }
    }

    #[test]
    fn places_of_aarch64_are_read() {
        let parse = |text| Operand::parse_with(text, of_aarch64);
        let int = Size { bytes: 4, is_signed: true };
        let long = Size { bytes: 8, is_signed: false };
        assert_eq!(parse("-4@w7"), Operand::Register { slot: 56, size: int });
        assert_eq!(parse("8@x30"), Operand::Register { slot: 240, size: long });
        let behind = |base, plus, size| Operand::Memory { base, index: None, plus, size };
        assert_eq!(parse("8@[x1]"), behind(8, 0, long));
        assert_eq!(parse("-4@[sp, 12]"), behind(248, 12, int));
        assert_eq!(parse("8@[x29, -16]"), behind(232, -16, long));
        assert_eq!(parse("-4@-7"), Operand::Constant((-7i64).cast_unsigned()));
        for text in ["8@x31", "8@[x0", "8@[x0, x1]", "8@d0", "8@[x0, 1, 2]", "8@xzr"] {
            assert_eq!(parse(text), Operand::Other(text.to_string()));
        }
    }
}
