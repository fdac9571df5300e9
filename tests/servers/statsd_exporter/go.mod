module weigh/statsd_exporter

go 1.26.0

tool github.com/prometheus/statsd_exporter
