//! Names for addresses.
//!
//! Reads the text of `/proc/kallsyms` or of a `System.map`, or what an image holds of its own
//! ([`embedded`]). Emits symbols by address; those of modules are left out, for their code is not in
//! the image. Refuses text of another form, a list whose addresses the kernel has hidden, and, when
//! it is laid over an image, one of another kernel.

pub mod embedded;
pub(crate) mod list;

use crate::elf::Elf;
pub use list::{Symbol, SymbolContent, Symbols, SymbolsError};

impl Symbols {
    /// Lays the list over an image: a running kernel may lie elsewhere than it was linked to.
    pub fn laid_over(mut self, elf: &Elf) -> Result<Self, SymbolsError> {
        let moved = elf.text().wrapping_sub(self.text);
        self.text = elf.text();
        self.list.iter_mut().for_each(|symbol| symbol.address = symbol.address.wrapping_add(moved));
        self.list.sort_by_key(|symbol| symbol.address);
        let is_code = |symbol: &&Symbol| {
            elf.section_at(symbol.address).is_some_and(|section| section.is_code)
        };
        let code = self.list.iter().filter(|symbol| symbol.kind == SymbolContent::Code);
        let (all, inside) = (code.clone().count(), code.filter(is_code).count());
        // Ends of sections lie just behind them, and what is per CPU lies nowhere.
        if inside < all - all / 20 || inside == 0 {
            return Err(SymbolsError::OtherKernel { outside: all - inside, code: all });
        }
        Ok(self)
    }
}

#[cfg(test)]
#[path = "symbols/tests.rs"]
mod tests;
