module weigh/prometheus_3

go 1.26.0

tool github.com/prometheus/prometheus/cmd/prometheus

require github.com/prometheus/prometheus v0.316.0
