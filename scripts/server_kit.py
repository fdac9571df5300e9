"""What servers.py has in common for all servers: what is expected, a proxy that records, requests, comparisons."""
import contextlib, copy, datetime, http.client, http.server, json, os, re, socket, subprocess, sys, threading, time
import urllib.error, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = f"{ROOT}/crates/export/tests/metrics/data"
TARGET = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target") + "/servers"
REPORTS = [json.loads(line) for line in open(f"{DATA}/reports.jsonl")]
LABEL = {"power": "zone"}
JOB_METRICS = {"job_cpu_cores": "cpu_cores", "job_memory_rss_sum_bytes": "memory_rss_sum_bytes", "job_processes": "processes",
               "job_cpus_requested": "cpus_requested", "job_memory_limit_bytes": "memory_limit_bytes",
               "job_time_left_seconds": "time_left_seconds"}
# The program that exports, of the command line.
EXPORT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""


# What is expected, from the reports alone

def printable(text):
    """As weigh escapes what a terminal would act on; the reports hold C0 characters only."""
    names = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(names.get(c, "\\u{%x}" % ord(c)) if ord(c) < 32 or ord(c) == 127 else c for c in text)


def labels_of(scope):
    kind, _, name = scope.partition(":")
    if kind == "node":
        return {}
    if kind == "operation":
        operation, _, mount = name.partition(":")
        return {"operation": printable(operation), "mount": printable(mount)}
    return {LABEL.get(kind, kind): printable(name)}


def points(report):
    """Values by metric and labels: without what is unavailable or not declared, and without sums beside the cores."""
    found = {}
    for scope, metrics in report["metrics"].items():
        for name, value in metrics.items():
            is_sum = scope == "node" and name.startswith("node_cpu_")
            if value["value"] is None or is_sum or scope.startswith("weather:"):
                continue
            found[name, tuple(sorted(labels_of(scope).items()))] = value["value"]
    for job in report["jobs"]:
        for name, field in JOB_METRICS.items():
            if job[field] is not None:
                found[name, tuple(sorted(job_labels(job, report).items()))] = job[field]
    return found


def job_labels(job, report):
    labels = {"user": job["user"], "job_kind": job["kind"]}
    if "group" in job:
        labels |= {"group": printable(job["group"]["scope"].removeprefix("group:")), "job_id": printable(job["group"]["name"])}
    else:
        names = [process["name"] for process in report["processes"] if process["parent_pid"] == job["pid"]]
        labels |= {"job_id": str(job["pid"]), **({"job_name": printable(names[0])} if names else {})}
    return labels


def moved_to_now(reports):
    """Servers drop what is older than they keep: the last report is made one of a minute ago."""
    moved = copy.deepcopy(reports)
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=250000)
    for number, report in enumerate(moved):
        at = now - datetime.timedelta(seconds=60 + 10 * (len(moved) - 1 - number))
        report["time"] = at.isoformat().replace("+00:00", "Z")
    return moved


def milliseconds(report):
    return round(datetime.datetime.fromisoformat(report["time"].replace("Z", "+00:00")).timestamp() * 1000)


# Servers, a proxy that records, requests

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url, data=None, content_type="application/json", method=None):
    request = urllib.request.Request(url, data, {"Content-Type": content_type} if data else {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        sys.exit(f"{url}: {error.code} {error.read().decode(errors='replace')[:2000]}\n{(data or b'').decode()[:2000]}")


@contextlib.contextmanager
def server(command, url, seconds=30, **how):
    with open(os.devnull, "w") as nothing:
        process = subprocess.Popen(command, stdout=nothing, stderr=nothing, **how)
    try:
        until = time.monotonic() + seconds
        while True:
            try:
                urllib.request.urlopen(url, timeout=2).read()
                break
            except urllib.error.HTTPError as answer:
                # It answers, though not with what a GET wants.
                if answer.code == 405:
                    break
                time.sleep(0.2)
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    sys.exit(f"{command[0]} does not answer at {url}")
                time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait()


class Recorder(http.server.ThreadingHTTPServer):
    """Hands requests on to a server, and keeps what both sides said."""

    def __init__(self, port):
        self.to, self.exchanges = port, []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server_port}"


KEPT_HEADERS = ("content-type", "retry-after", "x-prometheus-remote-write-samples-written")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.to, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() in KEPT_HEADERS]
        kind = self.headers.get("Content-Type", "")
        self.server.exchanges.append({
            "method": self.command, "path": self.path, "content_type": kind,
            "body": body.decode() if kind == "application/x-ndjson" else None,
            "status": answer.status, "answer_headers": "".join(f"{n}: {v}\r\n" for n, v in kept),
            "answer": text.decode(errors="replace"),
        })
        self.send_response(answer.status)
        for name, value in kept:
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do


def export(target, reports):
    lines = "".join(json.dumps(report, ensure_ascii=False) + "\n" for report in reports)
    output = subprocess.run([EXPORT, *target.split()], input=lines, capture_output=True, text=True, timeout=120)
    if output.returncode:
        sys.exit(f"{target}: {output.stderr}")
    return output.stdout


def record(name, exporter, version, recorder, status):
    folder = f"{DATA}/exchanges"
    os.makedirs(folder, exist_ok=True)
    head = {"exporter": exporter, "server": version,
            "sent_values": status["sent_values"], "lost_values": status["lost_values"]}
    with open(f"{folder}/{name}.jsonl", "w") as file:
        for line in [head, *recorder.exchanges]:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def send(name, exporter, version, port, reports):
    """Sends by way of the recorder; the exporter has to say that all was taken."""
    recorder = Recorder(port)
    status = json.loads(export(f"{exporter}={recorder.origin}", reports))
    recorder.shutdown()
    record(name, exporter, version, recorder, status)
    expected = sum(len(points(report)) for report in reports)
    if (status["sent_values"], status["lost_values"]) != (expected, 0):
        sys.exit(f"{version}: of {expected} values: {status}")
    return recorder


def compare(what, expected, found):
    """Both: value by key. As doubles, for the servers have no other numbers."""
    wrong = [key for key in {*expected, *found}
             if key not in expected or key not in found or float(expected[key]) != float(found[key])]
    if wrong:
        key = wrong[0]
        sys.exit(f"{what}: {len(wrong)} of {len(expected)} differ, as {key}: {expected.get(key)} and {found.get(key)}")
    print(f"{what}: {len(expected)} values equal")
    return len(expected)


def series_key(labels):
    rest = {k: v for k, v in labels.items() if k not in ("__name__", "instance", "job")}
    return labels["__name__"], tuple(sorted(rest.items()))


def version_of(package):
    """Debian's own builds do not all say their version."""
    command = ["dpkg-query", "--show", "--showformat=${Version}", package]
    return re.match(r"[\d.]+", subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0]
