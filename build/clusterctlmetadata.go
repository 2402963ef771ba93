// SPDX-License-Identifier: Apache-2.0

package build

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"
)

// releaseSeries is an entry of metadata.yaml.
type releaseSeries struct {
	Major    int    `json:"major"`
	Minor    int    `json:"minor"`
	Contract string `json:"contract"`
}

const (
	clusterctlGroupVersion = "clusterctl.cluster.x-k8s.io/v1alpha3"
	newestContract         = "v1beta2"
)

// seriesOf is the series of a version that versionPattern matches, without its contract.
func seriesOf(text string) releaseSeries {
	match := versionPattern.FindStringSubmatch(text)
	major, _ := strconv.Atoi(match[1])
	minor, _ := strconv.Atoi(match[2])
	return releaseSeries{Major: major, Minor: minor}
}

// contractLabel is the label by which a CRD says which of its versions keep a contract.
var contractLabel = regexp.MustCompile(`^cluster\.x-k8s\.io/(v\d+(?:(?:alpha|beta)\d+)?)$`)

// contractsOf returns the newest contract of each CRD that has one, oldest first, each once.
func contractsOf(objects []*unstructured.Unstructured) []string {
	var contracts []string
	for _, object := range objects {
		if groupKind(object) != crdKind {
			continue
		}
		var own []string
		for label := range object.GetLabels() {
			if match := contractLabel.FindStringSubmatch(label); match != nil {
				own = append(own, match[1])
			}
		}
		if len(own) > 0 {
			contracts = append(contracts, slices.MaxFunc(own, version.CompareKubeAwareVersionStrings))
		}
	}
	slices.SortFunc(contracts, version.CompareKubeAwareVersionStrings)
	return slices.Compact(contracts)
}

// newMetadata is a metadata.yaml for one series.
func newMetadata(series releaseSeries, contracts []string) ([]byte, error) {
	if len(contracts) > 1 {
		return nil, fmt.Errorf("the CRDs are labelled for the contracts %s, and a release is of one; label all for the newest, or give the provider's own metadata.yaml", strings.Join(contracts, " and "))
	}
	series.Contract = newestContract // of providers without a kind that has a contract
	if len(contracts) == 1 {
		series.Contract = contracts[0]
	}
	return fmt.Appendf(nil, `# Which contract between Cluster API and its providers each release series keeps:
# clusterctl installs and upgrades only providers of one contract together.
apiVersion: %s
kind: Metadata
releaseSeries:
- major: %d
  minor: %d
  contract: %s
`, clusterctlGroupVersion, series.Major, series.Minor, series.Contract), nil
}

// checkMetadata checks the provider's own metadata.yaml for what clusterctl would refuse, and notes what it would not.
func checkMetadata(metadata []byte, own releaseSeries, contracts []string) (notes []string, err error) {
	var m struct {
		APIVersion    string          `json:"apiVersion"`
		Kind          string          `json:"kind"`
		ReleaseSeries []releaseSeries `json:"releaseSeries"`
	}
	if err := yaml.Unmarshal(metadata, &m); err != nil {
		return nil, fmt.Errorf("reading metadata.yaml: %w", err)
	}
	var errs []error
	if m.APIVersion != clusterctlGroupVersion || m.Kind != "Metadata" && m.Kind != "" {
		errs = append(errs, fmt.Errorf("metadata.yaml is %s %s, not %s Metadata", m.APIVersion, m.Kind, clusterctlGroupVersion))
	}
	var contract string
	seen := map[releaseSeries]bool{}
	for _, series := range m.ReleaseSeries {
		key := releaseSeries{Major: series.Major, Minor: series.Minor}
		if seen[key] {
			errs = append(errs, fmt.Errorf("metadata.yaml has the release series %d.%d twice", key.Major, key.Minor))
		}
		seen[key] = true
		if key == own {
			contract = series.Contract
		}
	}
	if !seen[own] {
		errs = append(errs, fmt.Errorf("metadata.yaml has no release series %d.%d; add \"- {major: %[1]d, minor: %d, contract: %s}\" to releaseSeries", own.Major, own.Minor, newestOf(contracts)))
	}
	if contract != "" && len(contracts) > 0 && !slices.Equal(contracts, []string{contract}) {
		notes = append(notes, fmt.Sprintf("metadata.yaml says that release series %d.%d keeps the contract %s, and the CRDs are labelled for %s", own.Major, own.Minor, contract, strings.Join(contracts, " and ")))
	}
	return notes, errors.Join(errs...)
}

func newestOf(contracts []string) string {
	if len(contracts) == 0 {
		return newestContract
	}
	return contracts[len(contracts)-1]
}
