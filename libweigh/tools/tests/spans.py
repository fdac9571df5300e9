"""Spans of OpenTelemetry in exact, odd numbers, by the SDK's own exporter; says what it has done.

usage: spans.py         what is exported goes where the environment says; without a word of it, nowhere
"""

import os
import threading
import time

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("spans")

calls = {}


def count(path):
    calls[path] = calls.get(path, 0) + 1


def work(steps):
    with tracer.start_as_current_span("solve"):
        count("solve")
        for _ in range(steps):
            with tracer.start_as_current_span("step"):
                count("solve/step")
                time.sleep(0.001)
        with tracer.start_as_current_span("gr\u00fc\u00dfe"):
            count("solve/gr\u00fc\u00dfe")


threads = [threading.Thread(target=work, args=(steps,)) for steps in (13, 7)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for i in range(1031):
    with tracer.start_as_current_span("short"):
        count("short")
provider.shutdown()
for path, number in sorted(calls.items()):
    print(number, path)
