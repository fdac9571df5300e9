#!/usr/bin/env python3
"""Runs the exporters against real servers, reads back what they stored, and compares every number.

usage: servers.py EXPORT_REPORTS [SERVER...]    SERVER: prometheus, prometheus-3, victoria-metrics,
elasticsearch, opensearch, remote-write-2, otlp, collector, statsd

EXPORT_REPORTS is the example of that name of the crate weigh-export. Servers listen at the loopback interface; what is not
installed is skipped and said. Writes the table of docs/exporters.md, and the exchanges that `make test` replays into
crates/export/tests/metrics/data/exchanges.
"""
import datetime, glob, http.server, json, os, re, shutil, subprocess, sys, tempfile, threading, time, urllib.parse
import urllib.request

from server_kit import (DATA, EXPORT, REPORTS, ROOT, TARGET, Recorder, compare, export, free_port, get, milliseconds,
                        moved_to_now, points, record, send, series_key, server, version_of)

DOCUMENT = f"{ROOT}/docs/exporters.md"


# Each server

def instant_queries(origin, reports, job):
    equal = 0
    for report in reports:
        query = urllib.parse.urlencode({"query": '{job="%s",__name__=~"(node|job)_.*"}' % job, "time": milliseconds(report) / 1000})
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
    yield from prometheus_at(folder, "prometheus", f"Prometheus {version_of('prometheus')}", "prometheus")


def prometheus_3(folder):
    """Built from its Go module: its API is all there, its own page is not."""
    # Its ways of finding targets in clouds are left out: they are most of what it takes to build.
    binary = go_build("prometheus_3", "github.com/prometheus/prometheus/cmd/prometheus", "-tags=remove_all_sd")
    minor = re.search(r"prometheus/prometheus v0\.(\d)(\d\d)\.(\d+)", open(f"{ROOT}/tests/servers/prometheus_3/go.mod").read())
    version = f"Prometheus {minor[1]}.{int(minor[2])}.{minor[3]}"
    yield from prometheus_at(folder, binary, version, "prometheus-3", "--web.enable-otlp-receiver")


def go_build(module, package=".", *options):
    """The program of a Go module below tests/servers; it is built once."""
    os.makedirs(TARGET, exist_ok=True)
    binary = f"{TARGET}/{module}"
    subprocess.run(["go", "build", *options, "-o", binary, package], cwd=f"{ROOT}/tests/servers/{module}", check=True)
    return binary


def prometheus_at(folder, binary, version, name, *options):
    Scraped.text = export("openmetrics", REPORTS).encode()
    scraped = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scraped)
    threading.Thread(target=scraped.serve_forever, daemon=True).start()
    with open(f"{folder}/prometheus.yml", "w") as file:
        file.write("scrape_configs: [{job_name: scrape, scrape_interval: 1s, static_configs: "
                   f"[{{targets: ['127.0.0.1:{scraped.server_port}']}}]}}]\n")
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    command = [binary, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver", "--log.level=error", *options]
    with server(command, f"{origin}/-/ready"):
        reports = moved_to_now(REPORTS)
        recorder = send(name, "prometheus", version, port, reports)
        equal = instant_queries(origin, reports, "weigh")
        yield version, "`prometheus=`", f"{equal} values equal; {fall_back(recorder)}"
        if options:
            target = f"otlp=http://127.0.0.1:{port}/api/v1/otlp/v1/metrics"
            status = json.loads(export(target, moved_to_now(REPORTS)))
            expected = sum(len(points(report)) for report in REPORTS)
            assert (status["sent_values"], status["lost_values"]) == (expected, 0), status
            yield version, "`otlp=` to its receiver", f"{expected} values taken"
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
        yield from search(version, "elasticsearch-6", port, "interval")
        lifecycle = get(f"{origin}/weigh-node/_ilm/explain")["indices"]
        assert all(index["managed"] and index["policy"] == "weigh-node" for index in lifecycle.values()), lifecycle
        yield version, "lifecycle", "the index is under ILM"


def opensearch(folder):
    """A node of the artifacts of Maven, by the runner of tests; its lifecycle is a plugin that is not among them."""
    classes = opensearch_classes()
    if not classes:
        return
    version = "OpenSearch " + re.search(r"/opensearch-(\d[\d.]*)\.jar", "\n".join(glob.glob(f"{classes}/*.jar")))[1]
    port = free_port()
    command = ["java", "-Xms512m", "-Xmx512m", "-cp", f"{classes}/*", f"{ROOT}/tests/servers/opensearch/Node.java",
               f"{folder}/node", str(port)]
    with server(command, f"http://127.0.0.1:{port}", 300, cwd=folder):
        yield from search(version, "opensearch", port)


def opensearch_classes():
    """Fetched below target/servers, from the artifact of Maven with all that it needs."""
    classes = f"{TARGET}/opensearch"
    if not glob.glob(f"{classes}/*.jar") and shutil.which("mvn"):
        subprocess.run(["mvn", "-q", "-f", f"{ROOT}/tests/servers/opensearch/pom.xml", "dependency:copy-dependencies",
                        f"-DoutputDirectory={classes}"], check=False)
    return classes if glob.glob(f"{classes}/*.jar") else None


def search(version, name, port, interval="fixed_interval"):
    """What was sent is there, each number and each document once; the queries of the dashboard run, with this name of the interval."""
    origin = f"http://127.0.0.1:{port}"
    send(name, "elasticsearch", version, port, REPORTS)
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
        expected = {(metric, kind(labels), instance(labels)): value for (metric, labels), value in points(report).items()}
        equal += compare(f"{version} at {report['time']}", expected, found)
    users = get(f"{origin}/weigh-node/_search?size=0", json.dumps(
        {"aggs": {"users": {"terms": {"field": "labels.user"}}}}).encode())["aggregations"]["users"]["buckets"]
    assert {one["key"] for one in users} == {job["user"] for job in REPORTS[0]["jobs"]}, users
    yield version, "`elasticsearch=`", f"{equal} values equal after being sent twice"
    yield version, "dashboard", f"{search_queries(origin, interval)} queries run"


def kind(labels):
    """The scope's kind, by the names of its labels."""
    names = [name for name, _ in labels]
    known = {"operation": "operation", "job_id": "job", "zone": "power"}
    return next((kind for name, kind in known.items() if name in names), (names or ["node"])[0])


def instance(labels):
    by_name = dict(labels)
    if "job_id" in by_name:
        return by_name.get("group", by_name["job_id"])
    return ":".join(value for _, value in reversed(labels))


def elasticsearch_home():
    """Unpacked below target/servers, from the artifact of Maven."""
    found = glob.glob(f"{TARGET}/elasticsearch-6*/")
    if not found and shutil.which("mvn"):
        artifact = "org.elasticsearch.distribution.zip:elasticsearch:6.8.23:zip"
        subprocess.run(["mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={TARGET}"], check=False)
        for archive in glob.glob(f"{TARGET}/elasticsearch-6*.zip"):
            subprocess.run(["unzip", "-q", "-o", archive, "-d", TARGET], check=True)
            os.remove(archive)
        found = glob.glob(f"{TARGET}/elasticsearch-6*/")
    return found[0].rstrip("/") if found else None


def search_queries(origin, interval):
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
                    how |= {interval: "10s", "min_doc_count": int(bucket["settings"]["min_doc_count"])}
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
    packages = f"{TARGET}/python"
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


class Caught(Scraped):
    """Takes what the Collector hands on."""
    protocol_version = "HTTP/1.1"
    bodies = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.setdefault(self.path, []).append(json.loads(body))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


def collector(folder):
    """The real Collector takes metrics and spans, and hands them on as JSON of its own."""
    binary = go_build("collector")
    module = re.search(r"collector/otelcol v(\S+)", open(f"{ROOT}/tests/servers/collector/go.mod").read())
    version = f"OpenTelemetry Collector {module[1]}"
    caught = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Caught)
    threading.Thread(target=caught.serve_forever, daemon=True).start()
    port = free_port()
    pipeline = "{receivers: [otlp], exporters: [otlp_http]}"
    with open(f"{folder}/collector.yml", "w") as file:
        file.write(f"""receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}
exporters: {{otlp_http: {{endpoint: 'http://127.0.0.1:{caught.server_port}', encoding: json, compression: none,
  sending_queue: {{enabled: false}}}}}}
service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{metrics: {pipeline}, traces: {pipeline}}}}}
""")
    with server([binary, f"--config=file:{folder}/collector.yml"], f"http://127.0.0.1:{port}/v1/metrics", 60):
        send("collector", "otlp", version, port, REPORTS)
        equal = 0
        for report, request in zip(REPORTS, Caught.bodies["/v1/metrics"], strict=True):
            equal += compare(f"{version} at {report['time']}", points(report), otlp_points(request, report))
        yield version, "`otlp=`", f"{equal} values equal, handed on by it"
        yield version, "`weigh export --to otlp=`", spans_by(version, port)
    caught.shutdown()


def otlp_points(request, report):
    found = {}
    for metric in request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]:
        data = metric.get("sum") or metric["gauge"]
        assert ("sum" in metric) == metric["name"].endswith("_total"), metric["name"]
        for point in data["dataPoints"]:
            labels = {one["key"]: one["value"]["stringValue"] for one in point.get("attributes", [])}
            assert point["timeUnixNano"] == str(milliseconds(report) * 10**6)
            value = int(point["asInt"]) if "asInt" in point else point["asDouble"]
            found[series_key({"__name__": metric["name"], **labels})] = value
    return found


def spans_by(version, port):
    """The spans of a recording, as the Collector has handed them on: each is what was sent."""
    lines = [json.loads(line) for line in open(f"{DATA}/spans.jsonl")]
    recorder = Recorder(port)
    status = json.loads(export(f"spans otlp={recorder.origin}", lines))
    recorder.shutdown()
    sent = [span for line in lines for span in all_spans(line)]
    assert status == {"sent_spans": len(sent)}, status
    record("collector-spans", "spans", version, recorder, {"sent_values": len(sent), "lost_values": 0})
    found = [span for request in Caught.bodies["/v1/traces"] for span in all_spans(request)]
    assert plain_spans(found) == plain_spans(sent), f"{version}: spans differ"
    return f"{len(sent)} spans equal, handed on by it"


def all_spans(request):
    return request["resourceSpans"][0]["scopeSpans"][0]["spans"]


def plain_spans(spans):
    """Spans by their ids, without what is empty or nothing: senders may leave that out."""
    def plain(value):
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items() if inner not in ("", {}, [], 0)}
        return [plain(inner) for inner in value] if isinstance(value, list) else value
    return {span["spanId"]: plain(span) for span in spans}


def statsd(folder):
    """Tagged StatsD by UDP: what the server of Prometheus for it has of gauges, and of the growth of counters."""
    binary = go_build("statsd_exporter", "github.com/prometheus/statsd_exporter")
    module = re.search(r"statsd_exporter v(\S+)", open(f"{ROOT}/tests/servers/statsd_exporter/go.mod").read())
    version = f"statsd_exporter {module[1]}"
    port, web = free_port(), free_port()
    command = [binary, f"--statsd.listen-udp=127.0.0.1:{port}", "--statsd.listen-tcp=", f"--web.listen-address=127.0.0.1:{web}",
               "--log.level=error"]
    first, last = (tagged(points(report)) for report in REPORTS)
    expected = {key: value - first[key] if key[0].endswith("_total") else value
                for key, value in last.items() if key in first or not key[0].endswith("_total")}
    with server(command, f"http://127.0.0.1:{web}/metrics"):
        export(f"dogstatsd=127.0.0.1:{port}", REPORTS)
        until, found = time.monotonic() + 20, {}
        while len(found) < len(expected) and time.monotonic() < until:
            time.sleep(0.5)
            with urllib.request.urlopen(f"http://127.0.0.1:{web}/metrics") as answer:
                found = dict(sample_of(line) for line in answer.read().decode().splitlines() if re.match("node_|job_", line))
        yield version, "`dogstatsd=`", f"{compare(version, expected, found)} values equal"


def tagged(values):
    """As tags are written: without what StatsD has of its own."""
    plain = lambda text: re.sub(r"[|,#\n\\\x00-\x1f\x7f]", "_", text)
    return {(metric, tuple((name, plain(value)) for name, value in labels)): value for (metric, labels), value in values.items()}


def sample_of(line):
    name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
    pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
    unescaped = {name: value.replace('\\"', '"').replace("\\\\", "\\") for name, value in pairs if name != "node"}
    return (name, tuple(sorted(unescaped.items()))), float(value)


SERVERS = {"prometheus": prometheus, "prometheus-3": prometheus_3, "victoria-metrics": victoria_metrics,
           "elasticsearch": elasticsearch, "opensearch": opensearch, "remote-write-2": remote_write_2, "otlp": otlp,
           "collector": collector, "statsd": statsd}
NEEDED = {"prometheus-3": "go", "elasticsearch": "java", "opensearch": "java", "remote-write-2": "go", "otlp": "python3",
          "collector": "go", "statsd": "go"}
BEGIN, END = "<!-- by make servers -->\n", "<!-- end -->\n"


def main():
    rows = []
    for name in sys.argv[2:] or SERVERS:
        binary = NEEDED.get(name, name)
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
    main() if EXPORT else sys.exit(__doc__)
