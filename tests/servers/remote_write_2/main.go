// A receiver of Prometheus remote write 2.0 and nothing else, made of the handler and the messages of Prometheus' own client library.
// Listens at the address of its argument. GET /series answers with all samples as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"

	"github.com/prometheus/client_golang/exp/api/remote"
	writev2 "github.com/prometheus/client_golang/exp/api/remote/genproto/v2"
	"google.golang.org/protobuf/proto"
)

type sample struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
	TimeMs int64             `json:"time_ms"`
	Type   string            `json:"type"`
	Help   string            `json:"help"`
	Unit   string            `json:"unit"`
}

type store struct {
	sync.Mutex
	samples []sample
}

func (s *store) Store(r *http.Request, _ remote.WriteMessageType) (*remote.WriteResponse, error) {
	response := remote.NewWriteResponse()
	body, err := io.ReadAll(r.Body)
	request := &writev2.Request{}
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err != nil {
		response.SetStatusCode(http.StatusBadRequest)
		return response, err
	}
	s.Lock()
	defer s.Unlock()
	for _, series := range request.Timeseries {
		texts := writev2.DesymbolizeLabels(series.LabelsRefs, request.Symbols, nil)
		labels := map[string]string{}
		for i := 0; i+1 < len(texts); i += 2 {
			if i > 0 && texts[i-2] >= texts[i] {
				response.SetStatusCode(http.StatusBadRequest)
				return response, fmt.Errorf("labels are not sorted: %q", texts)
			}
			labels[texts[i]] = texts[i+1]
		}
		for _, one := range series.Samples {
			metadata := series.Metadata
			s.samples = append(s.samples, sample{labels, one.Value, one.Timestamp, metadata.Type.String(),
				request.Symbols[metadata.HelpRef], request.Symbols[metadata.UnitRef]})
			response.Samples++
		}
	}
	return response, nil
}

func main() {
	kept := &store{}
	http.Handle("/api/v1/write", remote.NewWriteHandler(kept, remote.MessageTypes{remote.WriteV2MessageType}))
	http.HandleFunc("/series", func(w http.ResponseWriter, _ *http.Request) {
		kept.Lock()
		defer kept.Unlock()
		_ = json.NewEncoder(w).Encode(kept.samples)
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
