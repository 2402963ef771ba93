// SPDX-License-Identifier: Apache-2.0

package capicontract_test

import (
	"slices"
	"testing"

	"github.com/capi-installer/capi-installer/internal/capicontract"
)

func TestOfLabel(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"cluster.x-k8s.io/v1beta1":            "v1beta1",
		"cluster.x-k8s.io/v1":                 "v1",
		"cluster.x-k8s.io/v2alpha10":          "v2alpha10",
		"cluster.x-k8s.io/v1foo":              "",
		"cluster.x-k8s.io/v0":                 "",
		"cluster.x-k8s.io/v1beta":             "",
		"cluster.x-k8s.io/provider":           "",
		"clusterctl.cluster.x-k8s.io/v1beta1": "",
		"":                                    "",
	} {
		if got, ok := capicontract.OfLabel(key); got != want || ok != (want != "") {
			t.Errorf("OfLabel(%q) = %q, %v, want %q", key, got, ok, want)
		}
	}
}

func TestOf_NewestSupportedContract(t *testing.T) {
	t.Parallel()
	const prefix = capicontract.LabelPrefix
	for _, test := range []struct {
		labels map[string]string
		want   string
	}{
		{map[string]string{prefix + "v1beta1": "v1", prefix + "v1beta2": "v1"}, "v1beta2"},
		{map[string]string{prefix + "v1beta1": "v1", prefix + "v1": "v1"}, "v1beta1"}, // Cluster API does not support v1
		{map[string]string{prefix + "v1alpha3": "v1", prefix + "v1alpha4": "v1"}, "v1alpha4"},
		{map[string]string{prefix + "v1beta2": "", prefix + "v1beta1": "v1"}, "v1beta1"},
		{map[string]string{prefix + "provider": "x"}, ""},
		{nil, ""},
	} {
		if got := capicontract.Of(test.labels); got != test.want {
			t.Errorf("Of(%v) = %q, want %q", test.labels, got, test.want)
		}
		if !slices.Contains(capicontract.Supported(), test.want) {
			test.want = ""
		}
		if got := capicontract.SupportedOf(test.labels); got != test.want {
			t.Errorf("SupportedOf(%v) = %q, want %q", test.labels, got, test.want)
		}
	}
}

func TestVersions_HighestFirst(t *testing.T) {
	t.Parallel()
	got := capicontract.Versions("v1alpha4_v1_v1beta1_v1beta10")
	if want := []string{"v1", "v1beta10", "v1beta1", "v1alpha4"}; !slices.Equal(got, want) {
		t.Errorf("versions are %q, want %q", got, want)
	}
}

func TestSeriesOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"v1.12.3": "1.12", "2.0.0-rc.1": "2.0", "v1.2": "0.0", "": "0.0", "latest": "0.0"} {
		got, ok := capicontract.SeriesOf(text)
		if got.String() != want || ok != (want != "0.0") {
			t.Errorf("SeriesOf(%q) = %s, %v, want %s", text, got, ok, want)
		}
	}
}

func TestSeries_Compare(t *testing.T) {
	t.Parallel()
	series := []capicontract.Series{{2, 0}, {1, 10}, {1, 9}}
	slices.SortFunc(series, capicontract.Series.Compare)
	if want := []capicontract.Series{{1, 9}, {1, 10}, {2, 0}}; !slices.Equal(series, want) {
		t.Errorf("series are %v, want %v", series, want)
	}
}

func TestKnown_Sorted(t *testing.T) {
	t.Parallel()
	if !slices.IsSortedFunc(capicontract.Known(), capicontract.Compare) {
		t.Errorf("not sorted: %v", capicontract.Known())
	}
	for _, supported := range capicontract.Supported() {
		if !slices.Contains(capicontract.Known(), supported) {
			t.Errorf("%s is not known", supported)
		}
	}
}
