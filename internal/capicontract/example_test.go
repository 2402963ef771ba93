// SPDX-License-Identifier: Apache-2.0

package capicontract_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/internal/capicontract"
)

func ExampleOf() {
	labels := map[string]string{
		"cluster.x-k8s.io/v1beta1":  "v1beta1",
		"cluster.x-k8s.io/v1beta2":  "v1beta1_v1beta2",
		"cluster.x-k8s.io/provider": "infrastructure-aws",
	}
	contract := capicontract.Of(labels)
	fmt.Println(contract, capicontract.Versions(labels[capicontract.LabelPrefix+contract]))
	// Output: v1beta2 [v1beta2 v1beta1]
}
