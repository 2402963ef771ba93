// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"bytes"
	"fmt"
)

func ExampleTable() {
	var out bytes.Buffer
	Table(&out, []Check{
		{"version of Kubernetes", OK, "1.36.3"}, {"API a", OK, ""}, {"API b", OK, ""}, {"API c", OK, ""},
		{"Namespace a", OK, ""}, {"Namespace b", OK, ""},
		{"Role a/r", Unknown, "namespace a not found"}, {"Role b/r", Unknown, "namespace b not found"},
		{"Role a/s", Unknown, "namespace a not found"}, {"Role a/t", Unknown, "namespace a not found"},
		{"ClusterRole a", Failed, "forbidden"},
	})
	fmt.Print(out.String())
	// Output:
	// VERDICT  CHECK                         DETAILS
	// ok       version of Kubernetes         1.36.3
	// ok       API a
	// ok       API b
	// ok       API c
	// unknown  Role a/r and 2 other objects  namespace a not found
	// unknown  Role b/r                      namespace b not found
	// failed   ClusterRole a                 forbidden
	// ok       2 objects passed dry runs
}
