//! The types of this kernel, and of its modules.
//!
//! Reads `/sys/kernel/btf`: the modules only when the kernel itself has not what is asked for, and each time anew,
//! for they come and go. Refuses what none has; of a module that tells no types it says so.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use weigh_collect::trace::{MOST_ARGUMENTS, raw_arguments};
use weigh_trace::btf::Btf;
use weigh_trace::error::{Refusal, Wrong};
use weigh_trace::event::{Event, Point};
use weigh_trace::probe::{self, Files};
use weigh_trace::signature::{self, Signature};
use weigh_trace::suggest::nearest;

use super::function_extent::check_instruction;
use super::tracepoint_groups::is_listed;

const FOLDER: &str = "/sys/kernel/btf";
const KERNEL: &str = "vmlinux";
const SYMBOLS: &str = "/proc/kallsyms";

/// Types.
pub struct Types {
    kernel: Arc<Btf>,
}

/// Those of modules, as they are now.
pub struct Modules {
    /// They.
    pub all: Vec<Arc<Btf>>,
    /// Modules whose types cannot be read, and why not.
    damaged: Vec<String>,
}

impl Types {
    /// Those of the kernel that runs.
    pub fn read() -> anyhow::Result<Types> {
        let path = Path::new(FOLDER).join(KERNEL);
        let path = path.display();
        let bytes = weigh_collect::kernel_types::read().with_context(|| {
            format!("this kernel does not tell its types ({path}); one built with CONFIG_DEBUG_INFO_BTF=y does")
        })?;
        let kernel = Btf::new(bytes).with_context(|| format!("{path} cannot be read"))?;
        Ok(Types { kernel: Arc::new(kernel) })
    }

    /// The kernel's own.
    pub fn kernel(&self) -> &Arc<Btf> {
        &self.kernel
    }

    /// Those of its modules.
    pub fn modules(&self) -> Modules {
        let mut modules = Modules { all: Vec::new(), damaged: Vec::new() };
        let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name != KERNEL);
        names.sort();
        for name in names {
            // One that is gone meanwhile has none.
            let Ok(bytes) = std::fs::read(Path::new(FOLDER).join(&name)) else { continue };
            match Btf::of_module(&name, bytes, &self.kernel) {
                Ok(btf) => modules.all.push(Arc::new(btf)),
                Err(error) => modules.damaged.push(format!("{name} ({error})")),
            }
        }
        modules
    }

    /// What is handed over at an event, and whose types say so.
    pub fn signature(
        &self,
        event: &Event,
        files: Files<'_>,
    ) -> Result<(Arc<Btf>, Signature), Refusal> {
        if let Point::Raw { name } = &event.point {
            return self.raw(event, name);
        }
        // To say what is near takes long: only where nobody has it.
        let is_here = match &event.point {
            Point::Function { module: None, name, .. } => self.kernel.function(name).is_some(),
            Point::Function { .. } => false,
            Point::Tracepoint { name, .. } => self.kernel.tracepoint(name).is_some(),
            _ => true,
        };
        check_instruction(event)?;
        if is_here {
            let found = probe::signature_of(&self.kernel, event, files)?;
            return Ok((Arc::clone(&self.kernel), found));
        }
        let modules = self.modules();
        match modules.find(event)? {
            Some(btf) => Ok((Arc::clone(btf), probe::signature_of(btf, event, files)?)),
            None => Err(modules.refuse(event, || self.refusal(event, files))),
        }
    }

    /// That the kernel has nothing of that name, and what is near.
    fn refusal(&self, event: &Event, files: Files<'_>) -> Refusal {
        if let Point::Function { module: Some(module), name, .. } = &event.point {
            let wrong = Wrong::NoFunction(format!("{module}:{name}"));
            return event.span.refuse(&event.text, wrong);
        }
        let found = probe::signature_of(&self.kernel, event, files);
        let gone = || Wrong::NoTracepoint(event.name());
        found.err().unwrap_or_else(|| event.span.refuse(&event.text, gone()))
    }
}

impl Types {
    /// A tracepoint whose arguments are numbers.
    fn raw(&self, event: &Event, name: &str) -> Result<(Arc<Btf>, Signature), Refusal> {
        let count = match raw_arguments(name) {
            Ok(count) => count,
            // Without rights nothing will be attached, and that is said.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => MOST_ARGUMENTS,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let wrong = Wrong::NoTracepoint(name.to_string());
                let near = nearest(name, self.kernel.tracepoints());
                return Err(event.span.refuse(&event.text, wrong).near(near));
            }
            Err(error) => {
                let wrong = Wrong::Unsupported(format!("raw:{name} cannot be attached: {error}"));
                return Err(event.span.refuse(&event.text, wrong));
            }
        };
        Ok((Arc::clone(&self.kernel), signature::of_raw(name, count)))
    }
}

impl Modules {
    /// The one that has what is asked for.
    fn find(&self, event: &Event) -> Result<Option<&Arc<Btf>>, Refusal> {
        let asked = match &event.point {
            Point::Function { module, .. } => module.as_deref(),
            _ => None,
        };
        let own = |btf: &&Arc<Btf>| {
            let is_asked = asked.is_none_or(|module| btf.module() == Some(module));
            is_asked && has_own(btf, &event.point)
        };
        let found: Vec<&Arc<Btf>> = self.all.iter().filter(own).collect();
        match found[..] {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            ref several => {
                let modules = several.iter().filter_map(|btf| Some(btf.module()?.to_string()));
                let (name, modules) = (name_of(&event.point).to_string(), modules.collect());
                Err(event.span.refuse(&event.text, Wrong::SeveralModules { name, modules }))
            }
        }
    }

    /// None has it: why that may be, and what is near.
    fn refuse(&self, event: &Event, refusal: impl FnOnce() -> Refusal) -> Refusal {
        let name = name_of(&event.point);
        let untyped = match &event.point {
            Point::Tracepoint { group, .. } => {
                is_listed(group.as_deref(), name).then(|| Wrong::NoTypes(name.to_string()))
            }
            Point::Function { .. } => module_of(name)
                .map(|module| Wrong::NoTypesOfFunction { name: name.to_string(), module }),
            _ => None,
        };
        if let Some(wrong) = untyped {
            return event.span.refuse(&event.text, wrong);
        }
        let refusal = refusal();
        let names: Vec<&str> = match &event.point {
            Point::Function { .. } => {
                self.all.iter().flat_map(|btf| btf.functions().map(|(_, name)| name)).collect()
            }
            _ => self.all.iter().flat_map(|btf| btf.tracepoints()).collect(),
        };
        let near = refusal.near.iter().cloned().chain(nearest(name, names.into_iter())).collect();
        let wrong = match self.damaged.is_empty() {
            true => *refusal.wrong,
            false => Wrong::DamagedModules { wrong: refusal.wrong, damaged: self.damaged.clone() },
        };
        event.span.refuse(&event.text, wrong).near(near)
    }
}

fn name_of(point: &Point) -> &str {
    match point {
        Point::Tracepoint { name, .. } | Point::Raw { name } | Point::Function { name, .. } => name,
        Point::Call { name, .. } => name,
        Point::User { name, .. } | Point::Usdt { name, .. } => name,
    }
}

/// Whether it is among a module's own.
fn has_own(btf: &Btf, point: &Point) -> bool {
    match point {
        Point::Tracepoint { name, .. } => btf.tracepoint(name).is_some(),
        Point::Function { name, .. } => btf.functions().any(|(_, other)| other == name),
        _ => false,
    }
}

/// The module that has a function of that name, by the kernel's list of symbols: `ADDRESS t NAME\t[MODULE]`.
fn module_of(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(SYMBOLS).ok()?;
    text.lines().find_map(|line| {
        let (symbol, module) = line.split_once('\t')?;
        let is_it = symbol.rsplit(' ').next() == Some(name);
        is_it.then(|| module.trim_matches(['[', ']']).to_string())
    })
}
