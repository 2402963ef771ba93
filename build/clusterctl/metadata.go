// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

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

// newMetadata returns a metadata.yaml for the series of a version, and an error if
// the CRDs have several contracts.
func newMetadata(version string, contracts []string) ([]byte, error) {
	var err error
	if len(contracts) > 1 {
		err = fmt.Errorf("the CRDs have labels for several contracts (%s), but a release has only one; label all CRDs for the newest contract, or use the provider's own metadata.yaml", strings.Join(contracts, " and "))
	}
	contract := capicontract.Newest // for providers without CRDs of a contract
	if len(contracts) > 0 {
		contract = contracts[len(contracts)-1]
	}
	series, _ := capicontract.SeriesOf(version) // Release.check reports a version that clusterctl does not accept
	return fmt.Appendf(nil, `# The contract between Cluster API and its providers that each release series implements:
# clusterctl installs and upgrades only providers of one contract together.
apiVersion: %s
kind: Metadata
releaseSeries:
- major: %d
  minor: %d
  contract: %s
`, capicontract.MetadataVersion, series.Major, series.Minor, contract), err
}
