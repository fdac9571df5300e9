#!/usr/bin/env python3
"""Runs the exporters against real servers, reads back what they stored, and compares every number.

usage: servers.py EXPORT_REPORTS [SERVER...]    SERVER: prometheus, victoria-metrics, elasticsearch, remote-write-2, otlp

EXPORT_REPORTS is the example of that name of the crate weigh-export. Servers listen at the loopback interface; what is not
installed is skipped and said. Writes the table of docs/exporters.md, and the exchanges that `make test` replays into
crates/export/tests/metrics/data/exchanges.
"""
import contextlib, copy, datetime, glob, http.client, http.server, json, os, re, shutil, socket, subprocess, sys
import tempfile, threading, time, urllib.parse, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = f"{ROOT}/crates/export/tests/metrics/data"
REPORTS = [json.loads(line) for line in open(f"{DATA}/reports.jsonl")]
DOCUMENT = f"{ROOT}/docs/exporters.md"
LABEL = {"power": "zone"}


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
    return found


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
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


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
    output = subprocess.run([EXPORT, target], input=lines, capture_output=True, text=True, timeout=120)
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


# Each server

def instant_queries(origin, reports, job):
    equal = 0
    for report in reports:
        query = urllib.parse.urlencode({"query": '{job="%s",__name__=~"node_.*"}' % job, "time": milliseconds(report) / 1000})
        result = get(f"{origin}/api/v1/query?{query}")["data"]["result"]
        found = {series_key(one["metric"]): one["value"][1] for one in result}
        equal += compare(f"{origin} {job} at {report['time']}", points(report), found)
    return equal


def dashboard_queries(origin):
    dashboard = json.load(open(f"{ROOT}/packaging/grafana/weigh-nodes-prometheus.json"))
    run = 0
    for panel in panels(dashboard):
        for target in panel["targets"]:
            query = target["expr"].replace("$node", ".*").replace("$__rate_interval", "1m")
            answer = get(f"{origin}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
            assert answer["status"] == "success", (query, answer)
            run += 1
    return run


def panels(dashboard):
    for panel in dashboard["panels"]:
        yield from panel.get("panels", [] if panel["type"] == "row" else [panel])


class Scraped(http.server.BaseHTTPRequestHandler):
    text = b""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.send_header("Content-Length", str(len(self.text)))
        self.end_headers()
        self.wfile.write(self.text)


def prometheus(folder):
    version = f"Prometheus {version_of('prometheus')}"
    Scraped.text = export("openmetrics", REPORTS).encode()
    scraped = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scraped)
    threading.Thread(target=scraped.serve_forever, daemon=True).start()
    with open(f"{folder}/prometheus.yml", "w") as file:
        file.write("scrape_configs: [{job_name: scrape, scrape_interval: 1s, static_configs: "
                   f"[{{targets: ['127.0.0.1:{scraped.server_port}']}}]}}]\n")
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver", "--log.level=error"]
    with server(command, f"{origin}/-/ready"):
        reports = moved_to_now(REPORTS)
        recorder = send("prometheus", "prometheus", version, port, reports)
        equal = instant_queries(origin, reports, "weigh")
        yield version, "`prometheus=`", f"{equal} values equal; {fall_back(recorder)}"
        until = time.monotonic() + 20
        while not get(f"{origin}/api/v1/query?query=up%7Bjob%3D%22scrape%22%7D%3D%3D1")["data"]["result"]:
            assert time.monotonic() < until, "nothing is scraped"
            time.sleep(0.5)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        equal = instant_queries(origin, [{**REPORTS[-1], "time": now}], "scrape")
        yield version, "`/metrics`", f"{equal} values equal, scraped as OpenMetrics"
        yield version, "dashboard", f"{dashboard_queries(origin)} queries run"
    scraped.shutdown()


def fall_back(recorder):
    first = recorder.exchanges[0]
    again = len(recorder.exchanges) > len(REPORTS)
    return f"2.0 answered {first['status']}, {'sent again as 1.0' if again else 'taken as 2.0'}"


def victoria_metrics(folder):
    version = f"VictoriaMetrics {version_of('victoria-metrics')}"
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    command = ["victoria-metrics", f"-storageDataPath={folder}/data", f"-httpListenAddr=127.0.0.1:{port}",
               "-search.latencyOffset=1s"]
    with server(command, f"{origin}/health"):
        reports = moved_to_now(REPORTS)
        recorder = send("victoria-metrics", "prometheus", version, port, reports)
        get(f"{origin}/internal/force_flush")
        query = urllib.parse.urlencode({"match[]": '{job="weigh"}'})
        with urllib.request.urlopen(f"{origin}/api/v1/export?{query}") as answer:
            series = [json.loads(line) for line in answer]
        equal = 0
        for report in reports:
            at = milliseconds(report)
            found = {series_key(one["metric"]): value for one in series
                     for value, time_ms in zip(one["values"], one["timestamps"]) if time_ms == at}
            equal += compare(f"{version} at {report['time']}", points(report), found)
        yield version, "`prometheus=`", f"{equal} values equal; {fall_back(recorder)}"
        yield version, "dashboard", f"{dashboard_queries(origin)} queries run"


def elasticsearch(folder):
    home = elasticsearch_home()
    if not home:
        return
    version = f"Elasticsearch {os.path.basename(home).split('-')[1]}"
    subprocess.run(["cp", "-r", f"{home}/config", f"{folder}/config"], check=True)
    port = free_port()
    with open(f"{folder}/config/elasticsearch.yml", "w") as file:
        file.write(f"network.host: 127.0.0.1\nhttp.port: {port}\ntransport.port: {free_port()}\ndiscovery.type: single-node\n"
                   f"xpack.ml.enabled: false\npath.data: {folder}/data\npath.logs: {folder}/logs\n")
    os.mkdir(f"{folder}/logs")
    options = open(f"{folder}/config/jvm.options").read()
    with open(f"{folder}/config/jvm.options", "w") as file:
        file.write(options.replace("logs/", f"{folder}/logs/").replace("=data", f"={folder}"))
    who = "nobody" if os.getuid() == 0 else None
    if who:
        subprocess.run(["chown", "-R", who, folder], check=True)
    environment = {**os.environ, "ES_PATH_CONF": f"{folder}/config", "ES_JAVA_OPTS": "-Xms512m -Xmx512m", "ES_TMPDIR": folder,
                   "JAVA_HOME": os.path.realpath(shutil.which("java")).removesuffix("/bin/java"), "HOME": folder}
    origin = f"http://127.0.0.1:{port}"
    with server([f"{home}/bin/elasticsearch"], origin, 300, user=who, env=environment, cwd=folder):
        send("elasticsearch-6", "elasticsearch", version, port, REPORTS)
        # The second time everything is there already; each document has its id, and none is there twice.
        status = json.loads(export(f"elasticsearch={origin}", REPORTS))
        assert status["lost_values"] == 0, status
        get(f"{origin}/weigh-node/_refresh", b"")
        hits = get(f"{origin}/weigh-node/_search?size=1000")["hits"]["hits"]
        equal = 0
        for report in REPORTS:
            found = {}
            for hit in hits:
                document = hit["_source"]
                if document["@timestamp"] == milliseconds(report):
                    for metric, value in document["metrics"].items():
                        assert (metric, document["scope"], document["instance"]) not in found
                        found[metric, document["scope"], document["instance"]] = value
            expected = {(metric, kind(labels), ":".join(v for _, v in reversed(labels))): value
                        for (metric, labels), value in points(report).items()}
            equal += compare(f"{version} at {report['time']}", expected, found)
        lifecycle = get(f"{origin}/weigh-node/_ilm/explain")["indices"]
        assert all(index["managed"] and index["policy"] == "weigh-node" for index in lifecycle.values()), lifecycle
        yield version, "`elasticsearch=`", f"{equal} values equal after being sent twice; the index is under ILM"
        yield version, "dashboard", f"{search_queries(origin)} queries run"


def kind(labels):
    """The scope's kind, by the names of its labels."""
    names = [name for name, _ in labels]
    return "operation" if "operation" in names else "power" if names == ["zone"] else (names or ["node"])[0]


def elasticsearch_home():
    """Unpacked below target/servers, from the artifact of Maven."""
    target = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target") + "/servers"
    found = glob.glob(f"{target}/elasticsearch-6*/")
    if not found and shutil.which("mvn"):
        artifact = "org.elasticsearch.distribution.zip:elasticsearch:6.8.23:zip"
        subprocess.run(["mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={target}"], check=False)
        for archive in glob.glob(f"{target}/elasticsearch-6*.zip"):
            subprocess.run(["unzip", "-q", "-o", archive, "-d", target], check=True)
            os.remove(archive)
        found = glob.glob(f"{target}/elasticsearch-6*/")
    return found[0].rstrip("/") if found else None


def search_queries(origin):
    """The dashboard's queries as Grafana's data source makes them of its targets."""
    dashboard = json.load(open(f"{ROOT}/packaging/grafana/weigh-nodes-elasticsearch.json"))
    run = 0
    for panel in panels(dashboard):
        for target in panel["targets"]:
            body = {"size": 0, "query": {"query_string": {"query": target["query"].replace("$node", "*")}}}
            level = body
            for bucket in target["bucketAggs"]:
                how = {"field": bucket["field"]}
                if bucket["type"] == "terms":
                    how |= {"size": int(bucket["settings"]["size"]), "order": {"_key": bucket["settings"]["order"]}}
                else:
                    how |= {"interval": "10s", "min_doc_count": 1}
                level["aggs"] = {bucket["id"]: {bucket["type"]: how}}
                level = level["aggs"][bucket["id"]]
            level["aggs"] = {}
            for metric in target["metrics"]:
                if "pipelineAgg" in metric:
                    level["aggs"][metric["id"]] = {metric["type"]: {"buckets_path": metric["pipelineAgg"], "unit": "1s"}}
                else:
                    level["aggs"][metric["id"]] = {metric["type"]: {"field": metric["field"]}}
            answer = get(f"{origin}/weigh-node/_search", json.dumps(body).encode())
            assert not answer["timed_out"] and answer["_shards"]["failed"] == 0, answer
            run += 1
    return run


def remote_write_2(folder):
    """No server of Debian's takes 2.0: a receiver made of Prometheus' own library does."""
    source = f"{ROOT}/tests/servers/remote_write_2"
    subprocess.run(["go", "build", "-o", f"{folder}/receiver", "."], cwd=source, check=True)
    module = re.search(r"client_golang/exp v\S*?(\d{8})\d{6}", open(f"{source}/go.mod").read())
    version = f"client_golang/exp {module[1]}, receiver of 2.0"
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    with server([f"{folder}/receiver", f"127.0.0.1:{port}"], f"{origin}/series"):
        recorder = send("remote-write-2", "prometheus", version, port, REPORTS)
        assert len(recorder.exchanges) == len(REPORTS), recorder.exchanges
        samples = get(f"{origin}/series")
        equal = 0
        for report in REPORTS:
            found = {series_key(one["labels"]): one["value"] for one in samples if one["time_ms"] == milliseconds(report)}
            equal += compare(f"{version} at {report['time']}", points(report), found)
        assert all(one["help"] and one["labels"]["instance"] == "node1" for one in samples)
        yield version, "`prometheus=`", f"{equal} values equal, taken as 2.0"


def otlp(folder):
    """No Collector: the messages of the published protocol, as Python's package has them, read the JSON strictly."""
    packages = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target") + "/servers/python"
    if not os.path.isdir(packages):
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", packages, "opentelemetry-proto"], check=True)
    sys.path.insert(0, packages)
    import google.protobuf.json_format
    import opentelemetry.proto.version
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
    requests = []

    class Receiver(Scraped):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            # Names and types that the protocol does not have are refused.
            requests.append(google.protobuf.json_format.Parse(body, service.ExportMetricsServiceRequest()))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    version = f"opentelemetry-proto {opentelemetry.proto.version.__version__}, its messages"
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    send("otlp", "otlp", version, receiver.server_port, REPORTS)
    receiver.shutdown()
    equal = 0
    for report, request in zip(REPORTS, requests):
        found = {}
        for metric in request.resource_metrics[0].scope_metrics[0].metrics:
            data = metric.sum if metric.HasField("sum") else metric.gauge
            assert metric.HasField("sum") == metric.name.endswith("_total"), metric.name
            for point in data.data_points:
                labels = {one.key: one.value.string_value for one in point.attributes}
                value = point.as_int if point.HasField("as_int") else point.as_double
                assert point.time_unix_nano == milliseconds(report) * 10**6
                found[series_key({"__name__": metric.name, **labels})] = value
        equal += compare(f"{version} at {report['time']}", points(report), found)
    yield version, "`otlp=`", f"{equal} values equal"


SERVERS = {"prometheus": prometheus, "victoria-metrics": victoria_metrics, "elasticsearch": elasticsearch,
           "remote-write-2": remote_write_2, "otlp": otlp}
BEGIN, END = "<!-- by make servers -->\n", "<!-- end -->\n"


def main():
    rows = []
    for name in sys.argv[2:] or SERVERS:
        binary = {"elasticsearch": "java", "remote-write-2": "go", "otlp": "python3"}.get(name, name)
        if not shutil.which(binary):
            print(f"{name}: skipped, {binary} is not installed")
            continue
        folder = tempfile.mkdtemp(prefix="weigh-servers-")
        os.chmod(folder, 0o755)
        try:
            rows += SERVERS[name](folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    write(rows)
    print(f"{len(rows)} passed, 0 failed")


def write(rows):
    """Puts the rows in place of those of the same server in the document."""
    text = open(DOCUMENT).read()
    before, rest = text.split(BEGIN)
    table, after = rest.split(END)
    today = datetime.date.today().isoformat()
    new = [f"| {version} | {what} | {result} | {today} |" for version, what, result in rows]
    servers = {version for version, _, _ in rows}
    old = [line for line in table.splitlines()[2:] if line.split("|")[1].strip() not in servers]
    head = ["| server | what | result | on |", "|---|---|---|---|"]
    with open(DOCUMENT, "w") as file:
        file.write(before + BEGIN + "\n".join(head + old + new) + "\n" + END + after)


if __name__ == "__main__":
    EXPORT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else sys.exit(__doc__)
    main()
