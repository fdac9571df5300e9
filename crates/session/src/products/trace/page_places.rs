//! How programs find pages by the address of their `struct page`: the kernel's variables that say it, by their names in
//! `/proc/kallsyms`, and its types. Only x86-64 has them.

use weigh_trace::btf::Btf;
use weigh_trace::generate::{Fragments, PagePlaces};

const SYMBOLS: &str = "/proc/kallsyms";

/// None where they are not told.
pub fn page_places(kernel: &Btf) -> Option<PagePlaces> {
    let fragments = Fragments::new(kernel)?;
    let symbols = std::fs::read(SYMBOLS).ok()?;
    let [memory, pages] = PagePlaces::NAMES.map(|name| address(&symbols, name));
    Some(PagePlaces { memory: memory?, pages: pages?, fragments })
}

/// The address of a symbol; none if it is hidden.
fn address(symbols: &[u8], name: &str) -> Option<u64> {
    let of = |line: &[u8]| {
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let address = words.next()?;
        (words.nth(1) == Some(name)).then(|| u64::from_str_radix(address, 16).ok())?
    };
    symbols.split(|byte| *byte == b'\n').find_map(of).filter(|address| *address != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_has_the_address_of_its_line_unless_that_is_hidden() {
        let symbols =
            b"0000000000000000 A x\nffffffff82a0e0f0 D page_offset_base\nzz D y\n12 t page\t[m]\n";
        assert_eq!(address(symbols, "page_offset_base"), Some(0xffff_ffff_82a0_e0f0));
        assert_eq!(
            ["x", "y", "page", "vmemmap_base"].map(|name| address(symbols, name)),
            [None; 4]
        );
    }
}
