// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"

	"github.com/capi-installer/capi-installer/build/contract"
)

// releaseSeries is an entry of metadata.yaml.
type releaseSeries struct {
	Major, Minor int
	Contract     string
}

const newestContract = "v1beta2"

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

// newMetadata is a metadata.yaml for one series, and what keeps it from being right.
func newMetadata(series releaseSeries, contracts []string) ([]byte, error) {
	var err error
	if len(contracts) > 1 {
		err = fmt.Errorf("the CRDs are labelled for the contracts %s, and a release is of one; label all for the newest, or give the provider's own metadata.yaml", strings.Join(contracts, " and "))
	}
	series.Contract = newestContract // of providers without a kind that has a contract
	if len(contracts) > 0 {
		series.Contract = contracts[len(contracts)-1]
	}
	return fmt.Appendf(nil, `# Which contract between Cluster API and its providers each release series keeps:
# clusterctl installs and upgrades only providers of one contract together.
apiVersion: %s
kind: Metadata
releaseSeries:
- major: %d
  minor: %d
  contract: %s
`, contract.ReleaseMetadataVersion, series.Major, series.Minor, series.Contract), err
}
