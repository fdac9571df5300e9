//! What a request was: its name, what it counts as, and its row where each call is wanted.

use weigh_schema::io::{Called, Counting, Deed, Field, Moved, Transfer};

macro_rules! calls {
    ($($call:ident $name:literal $deed:ident $field:ident;)*) => {
        /// What was asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call {
            /// Bytes are read.
            Read,
            /// Bytes are written.
            Write,
            /// Bytes are copied from a file to another.
            Copy,
            $(#[doc = $name] $call),*
        }

        const CALLS: &[Call] = &[Call::Read, Call::Write, Call::Copy, $(Call::$call),*];

        impl Call {
            fn name(self) -> &'static str {
                match self {
                    Call::Read => "read",
                    Call::Write => "write",
                    Call::Copy => "copy_file_range",
                    $(Call::$call => $name),*
                }
            }

            /// The time that it belongs to.
            pub fn time(self) -> Field {
                match self {
                    Call::Read => Field::ReadTime,
                    Call::Write | Call::Copy => Field::WriteTime,
                    $(Call::$call => Field::$field),*
                }
            }

            /// What it is. Which way bytes go, their piece says.
            pub fn deed(self) -> Deed {
                match self {
                    Call::Read => Deed::Read(Transfer::Positioned),
                    Call::Write => Deed::Write(Transfer::Positioned),
                    Call::Copy => Deed::Write(Transfer::Copied),
                    $(Call::$call => Deed::$deed),*
                }
            }
        }
    };
}

calls! {
    Open "open" Open MetadataTime;
    Close "close" Close MetadataTime;
    Sync "fsync" Sync SyncTime;
    Truncate "truncate" Truncate MetadataTime;
    Allocate "fallocate" Metadata MetadataTime;
    Seek "lseek" Seek MetadataTime;
    Attributes "chmod, chown, utimensat" Metadata MetadataTime;
    Flags "ioctl" Metadata MetadataTime;
    List "getdents64" Metadata MetadataTime;
    Extended "xattr" Metadata MetadataTime;
    MakeNode "mknod" Path MetadataTime;
    MakeDirectory "mkdir" Path MetadataTime;
    MakeSymlink "symlink" Path MetadataTime;
    Link "link" Path MetadataTime;
    Unlink "unlink" Path MetadataTime;
    RemoveDirectory "rmdir" Path MetadataTime;
    Rename "rename" Path MetadataTime;
}

/// What a call was, by its number.
pub fn call_name(number: u64) -> String {
    CALLS.get(number as usize).map_or("?", |call| call.name()).to_string()
}

/// A piece that was read or written.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Read (0) or written (1).
    pub direction: usize,
    /// How.
    pub kind: Transfer,
    /// Where it begins.
    pub from: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many were asked for.
    pub asked: u64,
    /// Whether it goes past the page cache.
    pub is_direct: bool,
}

/// What was done with a file.
#[derive(Clone, Copy, Debug)]
pub enum Done {
    /// A file was opened, and maybe cut to nothing: until it is released it is in use.
    Opened { truncates: bool },
    /// A directory was opened.
    Entered,
    /// A piece was read or written.
    Moved(Call, Piece),
    /// A piece came into the page cache: whether a call or mapped memory wanted it is not known.
    Filled(Piece),
    /// Its flags were asked for, or set. For that the kernel opens the file by itself.
    Flagged { opened: bool },
    /// Another call.
    Other(Call),
}

impl Done {
    /// By which call.
    pub fn call(&self) -> Call {
        match self {
            Done::Opened { .. } | Done::Entered => Call::Open,
            Done::Moved(call, _) | Done::Other(call) => *call,
            Done::Filled(_) => Call::Read,
            Done::Flagged { .. } => Call::Flags,
        }
    }

    /// Adds it up.
    pub fn count(&self, counting: &mut Counting) {
        match self {
            Done::Opened { truncates } => {
                counting.count(Field::Opens);
                if *truncates {
                    counting.count(Field::Truncates);
                }
            }
            Done::Entered => counting.count(Field::Opens),
            Done::Moved(_, piece) => counting.moved(&Moved {
                transfer: piece.kind,
                direction: piece.direction,
                calls: 1,
                bytes: piece.bytes,
                from: Some(piece.from),
                direct: piece.is_direct.then_some(piece.asked),
            }),
            Done::Filled(piece) => counting.add(Field::Filled, piece.bytes),
            Done::Flagged { opened } => {
                counting.count(Field::Metadata);
                if *opened {
                    let opens = counting.used.numbers.get(Field::Opens);
                    counting.used.numbers.set(Field::Opens, opens.saturating_sub(1));
                }
            }
            Done::Other(Call::Close) => counting.count(Field::Closes),
            Done::Other(Call::Sync) => counting.synced(),
            Done::Other(Call::Truncate) => counting.count(Field::Truncates),
            Done::Other(Call::Seek) => counting.count(Field::Seeks),
            Done::Other(_) => counting.count(Field::Metadata),
        }
    }

    /// Its row, but for who did it when.
    pub fn row(&self) -> Called {
        let row = blank(self.call());
        let place = |row: Called, piece: &Piece| Called {
            bytes: piece.bytes,
            from: Some(piece.from),
            // How much mapped memory asks for nobody says.
            asked: (piece.kind != Transfer::Mapped).then_some(piece.asked),
            ..row
        };
        match self {
            Done::Moved(_, piece) => {
                let deed = [Deed::Read(piece.kind), Deed::Write(piece.kind)][piece.direction & 1];
                Called { deed, calls: 1, ..place(row, piece) }
            }
            Done::Filled(piece) => Called { deed: Deed::Fill, asked: None, ..place(row, piece) },
            _ => row,
        }
    }
}

/// A row of a call that moved nothing.
pub fn blank(call: Call) -> Called {
    Called {
        file: None,
        pid: 0,
        tid: 0,
        deed: call.deed(),
        number: call as u64,
        calls: 0,
        bytes: 0,
        from: None,
        asked: None,
        error: 0,
        time_ns: 0,
        ended_ns: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_names() {
        assert_eq!(call_name(Call::Copy as u64), "copy_file_range");
        assert_eq!(call_name(Call::Rename as u64), "rename");
        assert_eq!(call_name(999), "?");
    }

    #[test]
    fn a_row_says_what_was_counted() {
        let piece = Piece {
            direction: 1,
            kind: Transfer::Positioned,
            from: 13,
            bytes: 1009,
            asked: 1021,
            is_direct: false,
        };
        for (done, moved, calls) in [
            (Done::Moved(Call::Write, piece), 1009, 1),
            (Done::Filled(Piece { direction: 0, ..piece }), 0, 0),
            (Done::Other(Call::Sync), 0, 0),
        ] {
            let mut counting = Counting::default();
            done.count(&mut counting);
            let numbers = &counting.used.numbers;
            assert_eq!(numbers.bytes[Transfer::Positioned as usize], [0, moved], "{done:?}");
            assert_eq!(numbers.calls[Transfer::Positioned as usize], [0, calls], "{done:?}");
            let row = done.row();
            assert_eq!(u64::from(row.calls), calls, "{done:?}");
        }
        let row = Done::Moved(Call::Write, piece).row();
        assert_eq!((row.deed, row.bytes), (Deed::Write(Transfer::Positioned), 1009));
        assert_eq!((row.from, row.asked), (Some(13), Some(1021)));
    }
}
