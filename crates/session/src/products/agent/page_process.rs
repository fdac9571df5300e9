//! The process that serves the agent's page: weigh again, without capabilities, as a user that owns nothing where the
//! agent is root's. It reads the agent by its socket, as any client.
//!
//! A thread starts it, reads the address that it says, and starts it again when it has ended, after growing pauses. It
//! ends with the agent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use weigh_agent::PageAccess;
use weigh_collect::host::account;
use weigh_collect::notice;

use super::page_pem::PagePem;
use super::page_settings::{PageSettings, RenewedPem};
use crate::capabilities;

/// The first pause before it is started again; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// One that has served for so long begins with the first pause.
const STEADY: Duration = Duration::from_secs(60);
/// Bytes of the line with its address.
const LINE_BYTES: u64 = 256;
/// Who serves it for root, if nobody is named.
const NOBODY: &str = "nobody";
/// Its number where it has no name.
const NOBODY_ID: u32 = 65534;

/// The process, kept alive until this is dropped.
pub struct PageProcess {
    /// The thread ends when this is dropped.
    stop: Option<Sender<()>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Between two looks at whether the certificate is another one.
const RENEWAL: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Shared {
    /// What the process proves by TLS who it is.
    pem: Mutex<Option<PagePem>>,
    /// It ends when its standard input does: the agent need not have the right to kill another user's process.
    child: Mutex<Option<Child>>,
    is_ending: AtomicBool,
}

impl Shared {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pem(&self) -> MutexGuard<'_, Option<PagePem>> {
        self.pem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the process that serves now, and for those after it.
    fn renew(&self, pem: PagePem) {
        if let Some(input) = self.child().as_mut().and_then(|child| child.stdin.as_mut()) {
            // One that has ended is started again.
            let _ = input.write_all(&pem.to_input());
        }
        *self.pem() = Some(pem);
    }

    fn end(&self) {
        if let Some(child) = self.child().as_mut() {
            drop(child.stdin.take());
        }
    }
}

impl PageProcess {
    /// Starts it, as the settings' user where the agent is root's. Errors: there is no such user; no threads are left.
    pub fn start(
        settings: &PageSettings,
        socket: &Path,
        access: PageAccess,
    ) -> anyhow::Result<PageProcess> {
        let user = match rustix::process::geteuid().is_root() {
            true => Some(unprivileged_user(settings.user.as_deref())?),
            false => None,
        };
        let socket = std::path::absolute(socket).context("the socket of --http")?;
        let (stop, is_stopped) = channel();
        let shared = Arc::new(Shared::default());
        *shared.pem() = settings.pem.clone();
        let keeper =
            Keeper { address: settings.address, user, socket, access, shared: shared.clone() };
        if let Some(renewed) = settings.renewed_pem.clone() {
            let shared = Arc::downgrade(&shared);
            let thread = std::thread::Builder::new().name("certificate".into());
            let look = move || look_for_renewal(&renewed, &shared);
            thread.spawn(look).context("cannot start a thread for the certificate")?;
        }
        let thread = std::thread::Builder::new().name("page".into());
        let thread = thread.spawn(move || keeper.run(&is_stopped));
        let thread = Some(thread.context("cannot start a thread for the page")?);
        Ok(PageProcess { stop: Some(stop), shared, thread })
    }
}

impl Drop for PageProcess {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        drop(self.stop.take());
        self.shared.end();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Until the page is not served any more.
fn look_for_renewal(renewed: &RenewedPem, shared: &Weak<Shared>) {
    loop {
        std::thread::sleep(RENEWAL);
        let Some(shared) = shared.upgrade() else { return };
        (renewed.0)().into_iter().for_each(|pem| shared.renew(pem));
    }
}

/// User and group.
fn unprivileged_user(name: Option<&str>) -> anyhow::Result<(u32, u32)> {
    let user = match (name, account(name.unwrap_or(NOBODY))) {
        (_, Some(user)) => user,
        (None, None) => (NOBODY_ID, NOBODY_ID),
        (Some(name), None) => bail!("--http-user {name}: there is no such user"),
    };
    if user.0 == 0 {
        bail!("--http-user: the page is not served as root");
    }
    Ok(user)
}

struct Keeper {
    address: SocketAddr,
    user: Option<(u32, u32)>,
    socket: PathBuf,
    access: PageAccess,
    shared: Arc<Shared>,
}

impl Keeper {
    fn run(mut self, is_stopped: &Receiver<()>) {
        match self.user {
            // It takes a capability to become the other user, who has none.
            Some(_) => capabilities::forbid_gains(),
            None => capabilities::drop_all(),
        }
        let mut pause = FIRST_PAUSE;
        loop {
            let begin = Instant::now();
            let why = self.serve_once();
            if begin.elapsed() > STEADY {
                pause = FIRST_PAUSE;
            }
            self.access.set_ended(why.clone());
            if self.shared.is_ending.load(Ordering::SeqCst) {
                return;
            }
            notice!("the page is not served: {why}; tried again in {} s", pause.as_secs_f64());
            if is_stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Until it ends; why it has.
    fn serve_once(&mut self) -> String {
        let mut child = match self.command().spawn() {
            Ok(child) => child,
            Err(error) => return format!("its process cannot be started: {error}"),
        };
        self.access.set_started(child.id());
        let output = child.stdout.take();
        let mut shared = self.shared.child();
        let pem = self.shared.pem().clone();
        if let Some((pem, input)) = pem.zip(child.stdin.as_mut()) {
            // One that has ended says so below.
            let _ = input.write_all(&pem.to_input());
        }
        *shared = Some(child);
        drop(shared);
        if self.shared.is_ending.load(Ordering::SeqCst) {
            self.shared.end();
        }
        output.into_iter().for_each(|output| self.hear(output));
        let child = self.shared.child().take();
        match child.map(|mut child| child.wait()) {
            Some(Ok(status)) => format!("its process has ended ({status})"),
            Some(Err(error)) => error.to_string(),
            None => "it was ended".to_string(),
        }
    }

    /// Takes the address that it says, and waits for its end.
    fn hear(&mut self, output: ChildStdout) {
        let mut output = BufReader::new(output.take(LINE_BYTES));
        let mut line = String::new();
        // What is no address is followed by the end.
        let _ = output.read_line(&mut line);
        if let Some((origin, port)) = origin_of(&line) {
            // It comes back there.
            self.address.set_port(port);
            self.access.set_served(self.address, origin);
            notice!("serves the page at {origin}; for its URL: weigh agent url");
        }
        let mut rest = output.into_inner();
        rest.set_limit(u64::MAX);
        let _ = std::io::copy(&mut rest, &mut std::io::sink());
    }

    fn command(&self) -> Command {
        let mut agent = std::ffi::OsString::from("--agent=");
        agent.push(&self.socket);
        let mut command = Command::new("/proc/self/exe");
        command.args(["serve", "--for-users", "--http", &self.address.to_string()]).arg(agent);
        command.arg("--child-of").arg(std::process::id().to_string());
        command.args(self.shared.pem().as_ref().map(|_| "--tls-input"));
        command.env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }
}

/// How its URLs begin, and its port.
fn origin_of(line: &str) -> Option<(&str, u16)> {
    let origin = line.trim_end().strip_suffix('/')?;
    let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"))?;
    let (host, port) = authority.rsplit_once(':')?;
    let port = port.parse().ok().filter(|_| !host.is_empty() && !host.contains('/'))?;
    Some((origin, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_of_its_first_line_alone() {
        assert_eq!(origin_of("http://127.0.0.1:4000/\n"), Some(("http://127.0.0.1:4000", 4000)));
        let named = origin_of("https://n1.example:443/\n");
        assert_eq!(named, Some(("https://n1.example:443", 443)));
        for wrong in [
            "",
            "http://",
            "http://127.0.0.1/",
            "ftp://a:1/",
            "http://127.0.0.1:4000/?token=1\n",
            "http://127.0.0.1:4000/?token=1/",
        ] {
            assert_eq!(origin_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nobody_serves_it_as_root() {
        assert!(unprivileged_user(None).is_ok_and(|(uid, _)| uid != 0));
        assert!(unprivileged_user(Some("root")).is_err());
        assert!(unprivileged_user(Some("no such user")).is_err());
    }
}
