// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the metrics of a running program by name.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics reads the metrics of the process.
func (p *Process) ReadMetrics(ctx context.Context) (Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of capi-installer: %w", err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// By returns the sum of a counter or gauge for each value of a label.
func (m Metrics) By(name, label string) map[string]float64 {
	sums := map[string]float64{}
	for _, metric := range m[name].GetMetric() {
		for _, pair := range metric.GetLabel() {
			if pair.GetName() == label {
				sums[pair.GetValue()] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return sums
}
