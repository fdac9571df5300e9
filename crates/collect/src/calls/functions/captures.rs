//! What is captured, by the kernel's type information: which argument, at which offsets.

use std::ffi::OsStr;

use libbpf_rs::btf::types::{Composite, Enum, Enum64, Func, FuncProto, Int, IntEncoding};
use libbpf_rs::btf::types::{CompositeMember, MemberAttr};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize as _};
use weigh_schema::configuration::{Capture, ConfigurationError, Function, RETURN};
use weigh_schema::nearest;

use crate::calls::layout::skeleton::types::capture_start;

/// Of the machine's calling convention: those beyond lie on the stack.
const ARGUMENTS_IN_REGISTERS: usize = 6;

/// Instead of the number of an argument.
const RETURNED: u8 = capture_start::RETURNED.0 as u8;

const POINTER_BYTES: usize = 8;

/// Something to capture, as the kernel side needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::calls) struct CaptureSource {
    pub(in crate::calls) argument: u8,
    /// All but the last are followed as pointers.
    pub(in crate::calls) offsets: Vec<u32>,
    /// 0: the address is what is wanted.
    pub(in crate::calls) bytes: u8,
    pub(in crate::calls) is_signed: bool,
}

/// The kernel's types.
pub(super) struct Types(Option<Btf<'static>>);

/// How a capture is refused.
type Refused<T> = Result<T, ConfigurationError>;

impl Types {
    pub(super) fn of_this_kernel() -> Types {
        Types(Btf::from_vmlinux().ok())
    }

    fn prototype(&self, function: &Function) -> Refused<(&Btf<'static>, FuncProto<'_>)> {
        let known = || {
            let btf = self.0.as_ref()?;
            let func = btf.type_by_name::<Func<'_>>(&function.name)?;
            Some((btf, FuncProto::try_from(func.next_type()?).ok()?))
        };
        known().ok_or_else(|| {
            let expected = "a function whose arguments the kernel's type information (BTF) tells; \
                            of this one nothing can be captured";
            ConfigurationError::value(&function.at, &function.name, expected)
        })
    }

    /// Finds what is to be captured of a function.
    pub(super) fn find(&self, function: &Function, capture: &Capture) -> Refused<CaptureSource> {
        let (btf, prototype) = self.prototype(function)?;
        let (number, argument) = match capture.is_of_return() {
            true => (RETURNED, returned(&prototype)),
            false => argument(btf, &prototype, function, capture)?,
        };
        let Some(argument) = argument else {
            return refuse(capture, &format!("something that {} returns", function.name));
        };
        let mut walk = Walk {
            btf,
            capture,
            found: CaptureSource { argument: number, ..CaptureSource::default() },
        };
        walk.along(argument)?;
        Ok(walk.found)
    }
}

fn argument<'a>(
    btf: &'a Btf<'static>,
    prototype: &FuncProto<'a>,
    function: &Function,
    capture: &Capture,
) -> Refused<(u8, Option<BtfType<'a>>)> {
    let name = OsStr::new(&capture.argument);
    let known: Vec<_> = (0..prototype.len()).filter_map(|n| prototype.get(n)).collect();
    let Some(place) = known.iter().position(|known| known.name == Some(name)) else {
        let names = known.iter().filter_map(|known| known.name?.to_str());
        let what = "argument of the function";
        let names: Vec<&str> = names.chain([RETURN]).collect();
        return Err(ConfigurationError::unknown(&capture.at, what, &capture.argument, names));
    };
    let ty = |place: usize| {
        let ty = btf.type_by_id::<BtfType<'_>>(known.get(place)?.ty)?;
        Some(ty.skip_mods_and_typedefs())
    };
    // A structure that is handed over by value moves those behind it to other places.
    let by_value = (0..=place).filter_map(ty).any(|ty| Composite::try_from(ty).is_ok());
    if place >= ARGUMENTS_IN_REGISTERS || by_value {
        let expected = format!(
            "an argument that {} is given in a register: one of the first \
             {ARGUMENTS_IN_REGISTERS}, and none behind a structure",
            function.name
        );
        return refuse(capture, &expected);
    }
    Ok((place as u8, ty(place)))
}
fn refuse<T>(capture: &Capture, expected: &str) -> Refused<T> {
    Err(ConfigurationError::value(&capture.at, &capture.text, expected))
}

fn returned<'a>(prototype: &FuncProto<'a>) -> Option<BtfType<'a>> {
    Some(prototype.next_type()?.skip_mods_and_typedefs())
}

/// The way from an argument along the fields.
struct Walk<'a> {
    btf: &'a Btf<'static>,
    capture: &'a Capture,
    found: CaptureSource,
}

impl<'a> Walk<'a> {
    fn along(&mut self, argument: BtfType<'a>) -> Refused<()> {
        let mut ty = argument;
        for step in &self.capture.steps {
            // Only pointers are followed; a structure in a structure is at an offset in it.
            let is_followed = ty.kind() == BtfKind::Ptr;
            if is_followed {
                let Some(target) = ty.next_type() else { return self.no_fields(&step.field) };
                ty = target.skip_mods_and_typedefs();
                self.found.offsets.push(0);
            }
            let Ok(composite) = Composite::try_from(ty) else {
                return self.no_fields(&step.field);
            };
            let Some(member) = member(self.btf, composite, &step.field) else {
                return self.no_field(composite, &step.field);
            };
            let Some(offset) = self.found.offsets.last_mut() else {
                return self.no_fields(&step.field);
            };
            *offset += member.offset;
            if member.is_bits {
                return refuse(self.capture, "a field of its own bytes; this one is a bit field");
            }
            ty = member.ty;
        }
        if self.capture.is_address {
            self.found.bytes = 0;
            return Ok(());
        }
        let (bytes, is_signed) = self.number(ty)?;
        (self.found.bytes, self.found.is_signed) = (bytes, is_signed);
        Ok(())
    }

    /// How large a number is, and whether it has a sign.
    fn number(&self, ty: BtfType<'a>) -> Refused<(u8, bool)> {
        if let Ok(int) = Int::try_from(ty) {
            return Ok((int.bits.div_ceil(8), matches!(int.encoding, IntEncoding::Signed)));
        }
        if ty.kind() == BtfKind::Ptr {
            return Ok((POINTER_BYTES as u8, false));
        }
        if let Ok(values) = Enum::try_from(ty) {
            return Ok((values.size() as u8, values.is_signed()));
        }
        if let Ok(values) = Enum64::try_from(ty) {
            return Ok((values.size() as u8, values.is_signed()));
        }
        let fields = Composite::try_from(ty).map(|ty| fields(self.btf, ty)).unwrap_or_default();
        let expected = match fields.is_empty() {
            true => "a number or a pointer, or & in front for its address".to_string(),
            false => format!(
                "a number or a pointer, or & in front for its address; it is a structure with {}",
                fields.join(", ")
            ),
        };
        refuse(self.capture, &expected)
    }

    fn no_fields<T>(&self, field: &str) -> Refused<T> {
        refuse(
            self.capture,
            &format!("something with fields before '{field}': a structure, or a pointer to one"),
        )
    }

    fn no_field<T>(&self, composite: Composite<'a>, field: &str) -> Refused<T> {
        let fields = fields(self.btf, composite);
        let near = nearest(field, fields.iter().map(String::as_str));
        let known: Vec<&str> = match near.is_empty() {
            true => fields.iter().map(String::as_str).collect(),
            false => near,
        };
        Err(ConfigurationError::unknown(&self.capture.at, "field", field, known))
    }
}

/// A field, and where it is.
struct Member<'a> {
    ty: BtfType<'a>,
    offset: u32,
    is_bits: bool,
}

fn bytes(attribute: &MemberAttr) -> (u32, bool) {
    match attribute {
        MemberAttr::Normal { offset } => (offset / 8, false),
        MemberAttr::BitField { offset, .. } => (offset / 8, true),
    }
}

/// The fields themselves, and their types.
fn members<'a>(
    btf: &'a Btf<'static>,
    composite: Composite<'a>,
) -> Vec<(CompositeMember<'a>, BtfType<'a>)> {
    let members = (0..composite.len()).filter_map(|index| composite.get(index));
    let typed = members.filter_map(|member| {
        let ty = btf.type_by_id::<BtfType<'_>>(member.ty)?;
        Some((member, ty.skip_mods_and_typedefs()))
    });
    typed.collect()
}

/// A field, also if it is in a structure or union without a name.
fn member<'a>(btf: &'a Btf<'static>, composite: Composite<'a>, name: &str) -> Option<Member<'a>> {
    members(btf, composite).into_iter().find_map(|(known, ty)| {
        let (offset, is_bits) = bytes(&known.attr);
        match known.name.filter(|name| !name.is_empty()) {
            Some(own) => (own == OsStr::new(name)).then_some(Member { ty, offset, is_bits }),
            None => {
                let inner = member(btf, Composite::try_from(ty).ok()?, name)?;
                Some(Member { offset: offset + inner.offset, ..inner })
            }
        }
    })
}

fn fields<'a>(btf: &'a Btf<'static>, composite: Composite<'a>) -> Vec<String> {
    let names = members(btf, composite).into_iter().map(|(known, ty)| {
        match known.name.filter(|name| !name.is_empty()) {
            Some(name) => vec![name.to_string_lossy().into_owned()],
            None => Composite::try_from(ty).map(|inner| fields(btf, inner)).unwrap_or_default(),
        }
    });
    names.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::configuration::At;

    /// Of this kernel's own types, so that the test needs no kernel of a certain version.
    fn find(function: &str, capture: &str) -> Result<CaptureSource, String> {
        let text = format!("[subsystem.x.boundary]\n{function} = {{ n = \"{capture}\" }}\n");
        let read = weigh_schema::configuration::parse("f", &text).expect("it is read");
        let boundary = &read.subsystems[0].boundary[0];
        let at = At { file: "f".into(), line: 2, key: String::new() };
        let function = Function { name: function.into(), at };
        let found = Types::of_this_kernel().find(&function, &boundary.sums[0].capture);
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_fields_and_returns_are_found() {
        let count = find("vfs_read", "count").expect("an argument");
        assert_eq!((count.argument, count.bytes, count.offsets.len()), (2, 8, 0));
        let returned = find("vfs_read", "return").expect("a number");
        assert_eq!((returned.argument, returned.bytes, returned.is_signed), (6, 8, true));
        let length = find("__dev_queue_xmit", "skb->len").expect("a field");
        assert_eq!((length.argument, length.bytes, length.offsets.len()), (0, 4, 1));
        // In a structure in a union without names.
        let index = find("__dev_queue_xmit", "skb->dev->ifindex").expect("a field of a field");
        assert_eq!((index.offsets.len(), index.offsets[0], index.is_signed), (2, 16, true));
        let inode = find("vfs_read", "file->f_inode->i_sb->s_bdi->id").expect("far away");
        assert_eq!(inode.offsets.len(), 4);
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        for (function, capture, expected) in [
            ("vfs_read", "counts", "there is file, buf, count, pos, return"),
            ("__dev_queue_xmit", "skb->lne", "there is no field 'lne'; there is"),
            ("vfs_read", "count->x", "something with fields before 'x'"),
            ("vfs_read", "file->f_inode->i_ino->y", "'file->f_inode->i_ino->y'"),
            ("vfs_read", "file->f_path", "a structure with mnt, dentry"),
            ("__dev_queue_xmit", "skb->ip_summed", "this one is a bit field"),
            ("no_such_function_here", "x", "nothing can be captured"),
        ] {
            let refusal = find(function, capture).expect_err(capture);
            assert!(refusal.contains(expected), "{capture}: {refusal}");
        }
    }
}
