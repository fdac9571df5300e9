//! As much of `crates/collect` as the agent's messages name, without BPF programs to compile.

pub mod follow {
    #[derive(Clone, Copy)]
    pub struct Wanted {
        pub calls: bool,
        pub network: bool,
        pub files: bool,
        pub cpu_waits: bool,
    }

    #[derive(Clone, Copy)]
    pub enum Hold {
        Not,
        Stop,
        Kill,
    }
}

pub mod io {
    #[derive(Clone, Copy)]
    pub enum Kept {
        Uses,
        Devices,
        Processes,
        Requests,
        Rest,
    }

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Told(Vec<u8>);

    impl Told {
        pub fn from_bytes(bytes: Vec<u8>) -> Told {
            Told(bytes)
        }

        pub fn bytes(&self) -> &[u8] {
            &self.0
        }
    }
}
