//! What takes what a session emits: the contract of everything that keeps, shows or passes it on.

use crate::summary::Summary;
use crate::update::Update;

/// Takes updates, in the order in which they are emitted.
///
/// Nothing that goes wrong in a sink ends a session, or decides about the job: it is kept, and told at the end.
pub trait Sink {
    /// Takes an update.
    fn emit(&mut self, update: &Update);

    /// All that is there for now has been emitted: what is written has to be found by others.
    fn flush(&mut self) {}

    /// Whether somebody waits for each update: a page that shows it live.
    fn is_watched(&self) -> bool {
        false
    }

    /// What went wrong, in words, if something did: nothing more is taken from then on.
    fn error(&self) -> Option<String> {
        None
    }

    /// The session is over: what is known of it. Nothing more is emitted.
    fn finish(&mut self, _summary: &Summary) {}
}

/// One that could not be had takes nothing: why it could not be is its caller's to tell.
impl<S: Sink, E> Sink for Result<S, E> {
    fn emit(&mut self, update: &Update) {
        if let Ok(sink) = self {
            sink.emit(update);
        }
    }

    fn flush(&mut self) {
        if let Ok(sink) = self {
            sink.flush();
        }
    }

    fn is_watched(&self) -> bool {
        self.as_ref().is_ok_and(Sink::is_watched)
    }

    fn error(&self) -> Option<String> {
        self.as_ref().ok().and_then(Sink::error)
    }

    fn finish(&mut self, summary: &Summary) {
        if let Ok(sink) = self {
            sink.finish(summary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counted {
        emitted: usize,
        flushed: usize,
    }

    impl Sink for Counted {
        fn emit(&mut self, _: &Update) {
            self.emitted += 1;
        }

        fn flush(&mut self) {
            self.flushed += 1;
        }

        fn error(&self) -> Option<String> {
            (self.emitted > 1).then(|| "full".to_string())
        }
    }

    #[test]
    fn one_that_could_not_be_had_takes_nothing() {
        let mut there: Result<Counted, ()> = Ok(Counted::default());
        let mut absent: Result<Counted, &str> = Err("no folder");
        for sink in [&mut there as &mut dyn Sink, &mut absent] {
            (0..2).for_each(|_| sink.emit(&Update::Unknown));
            sink.flush();
        }
        assert_eq!(Sink::error(&there).as_deref(), Some("full"));
        assert_eq!(Sink::error(&absent), None);
        assert!(there.is_ok_and(|sink| (sink.emitted, sink.flushed) == (2, 1)));
    }
}
