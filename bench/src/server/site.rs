//! Servers of a small file, as Debian has them: nginx and lighttpd, each in one process, with what
//! their packages' own configurations say where that is not about the whole machine.
//!
//! Starts them bare or by `weigh calls`, with its library in them; refuses those that do not answer.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::runs::Bench;

pub const FILE_BYTES: usize = 1009;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Nginx,
    Lighttpd,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Nginx, Kind::Lighttpd];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Lighttpd => "lighttpd",
        }
    }

    fn configuration(self, folder: &Path, port: u16) -> String {
        let folder = folder.display();
        match self {
            Kind::Nginx => format!(
                "master_process off; daemon off; user root; pid {folder}/pid;\n\
                 error_log {folder}/error; events {{ worker_connections 768; }}\n\
                 http {{ sendfile on; tcp_nopush on; types_hash_max_size 2048; gzip on;\n\
                 access_log {folder}/access; default_type application/octet-stream;\n\
                 client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;\n\
                 fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n\
                 server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
            ),
            Kind::Lighttpd => format!(
                "server.modules = ( \"mod_indexfile\", \"mod_access\", \"mod_alias\", \"mod_redirect\" )\n\
                 server.document-root = \"{folder}\"\nserver.errorlog = \"{folder}/error\"\n\
                 server.pid-file = \"{folder}/pid\"\nserver.bind = \"127.0.0.1\"\n\
                 server.port = {port}\n"
            ),
        }
    }

    fn command(self, folder: &Path, file: &Path) -> Vec<String> {
        let (folder, file) = (folder.display().to_string(), file.display().to_string());
        let error = format!("{folder}/error");
        let words = match self {
            Kind::Nginx => vec!["nginx", "-p", &folder, "-c", &file, "-e", &error],
            Kind::Lighttpd => vec!["lighttpd", "-D", "-f", &file],
        };
        words.into_iter().map(String::from).collect()
    }
}

/// A server that answers.
pub struct Server {
    /// The server, or weigh that has started it.
    child: Child,
    pub port: u16,
    pid: Pid,
}

impl Server {
    /// Starts it, by `weigh calls` with these options if there are any.
    pub fn start(bench: &Bench, kind: Kind, weigh: Option<&[&str]>) -> Result<Server> {
        let folder = bench.path("server");
        let _ = fs::remove_dir_all(&folder);
        let _ = fs::remove_file(bench.path("calls.json"));
        fs::create_dir_all(&folder).context("a folder for the server")?;
        fs::write(folder.join("small"), vec![b'x'; FILE_BYTES]).context("a file to serve")?;
        // Free a moment ago; nobody else on the machine takes ports at random.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let file = folder.join("configuration");
        fs::write(&file, kind.configuration(&folder, port)).context("the configuration")?;
        let mut words = Vec::new();
        if let Some(options) = weigh {
            words.extend([bench.weigh_path(), "calls".into(), "-q".into()]);
            words.extend(["--mechanism", "preload"].map(String::from));
            words.extend(options.iter().map(|option| option.to_string()));
            words.extend(["--json".into(), bench.path("calls.json").display().to_string()]);
            words.push("--".into());
        }
        words.extend(kind.command(&folder, &file));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("PATH", bench.search_path() + ":/usr/sbin");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| words.join(" "))?;
        let answers = wait_until_it_answers(&mut child, kind, port, &folder.join("pid"));
        match answers {
            Ok(pid) => Ok(Server { child, port, pid }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Its CPU time so far.
    pub fn cpu_us(&self) -> Result<f64> {
        let file = format!("/proc/{}/schedstat", self.pid.as_raw_nonzero());
        let stat = fs::read_to_string(file).context("its CPU time")?;
        let nanoseconds =
            stat.split_whitespace().next().and_then(|first| first.parse::<f64>().ok());
        Ok(nanoseconds.context("its CPU time")? / 1e3)
    }

    /// Whether weigh, which has started it, has measured all that it will, and does no more than wait for it.
    pub fn has_been_told_of(&self, bench: &Bench) -> bool {
        fs::metadata(bench.path("calls.json")).is_ok_and(|file| file.len() > 0)
    }

    /// Ends it. How many calls weigh saw, if it was there.
    pub fn end(mut self, bench: &Bench) -> Result<f64> {
        kill_process(self.pid, Signal::TERM).context("ending the server")?;
        self.child.wait().context("weigh calls")?;
        let text = fs::read_to_string(bench.path("calls.json")).unwrap_or_default();
        let report: Value = serde_json::from_str(&text).unwrap_or_default();
        ensure!(
            report["lost_total"].as_u64().unwrap_or(0) == 0,
            "weigh lost {} calls",
            report["lost_total"]
        );
        Ok(report["calls_total"].as_f64().unwrap_or(0.0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn wait_until_it_answers(child: &mut Child, kind: Kind, port: u16, file: &Path) -> Result<Pid> {
    let (began, name) = (Instant::now(), kind.name());
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && TcpStream::connect(("127.0.0.1", port)).is_ok()
        {
            return Ok(pid);
        }
        ensure!(began.elapsed() < Duration::from_secs(20), "{name} does not answer");
        // weigh may have left it to itself already.
        let status = child.try_wait()?;
        ensure!(status.is_none_or(|status| status.success()), "{name} has ended at once");
        std::thread::sleep(Duration::from_millis(20));
    }
}
