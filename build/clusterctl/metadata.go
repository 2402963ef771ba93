// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// releaseSeries is an entry of metadata.yaml.
type releaseSeries struct {
	Major, Minor int
	Contract     string
}

const newestContract = "v1beta2"

// seriesOf returns the series of a semantic version with a leading v, without its
// contract.
func seriesOf(text string) releaseSeries {
	var major, minor int
	_, _ = fmt.Sscanf(text, "v%d.%d", &major, &minor) // the options are valid
	return releaseSeries{Major: major, Minor: minor}
}

// contractsOf returns the contracts that the labels of the CRDs name, the oldest
// first, without duplicates.
func contractsOf(objects []*unstructured.Unstructured) []string {
	var contracts []string
	for _, obj := range objects {
		if !object.IsCRD(obj) {
			continue
		}
		if contract := capicontract.Of(obj.GetLabels()); contract != "" {
			contracts = append(contracts, contract)
		}
	}
	slices.SortFunc(contracts, capicontract.Compare)
	return slices.Compact(contracts)
}

// newMetadata returns a metadata.yaml for one series, and an error if the CRDs have
// several contracts.
func newMetadata(series releaseSeries, contracts []string) ([]byte, error) {
	var err error
	if len(contracts) > 1 {
		err = fmt.Errorf("the CRDs have labels for several contracts (%s), but a release has only one; label all CRDs for the newest contract, or use the provider's own metadata.yaml", strings.Join(contracts, " and "))
	}
	series.Contract = newestContract // for providers without CRDs of a contract
	if len(contracts) > 0 {
		series.Contract = contracts[len(contracts)-1]
	}
	return fmt.Appendf(nil, `# The contract between Cluster API and its providers that each release series implements:
# clusterctl installs and upgrades only providers of one contract together.
apiVersion: %s
kind: Metadata
releaseSeries:
- major: %d
  minor: %d
  contract: %s
`, contract.ReleaseMetadataVersion, series.Major, series.Minor, series.Contract), err
}
