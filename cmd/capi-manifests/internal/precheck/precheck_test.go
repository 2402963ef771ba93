// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"bytes"
	"fmt"
)

func ExampleTable() {
	var out bytes.Buffer
	Table(&out, []Check{
		{"version of Kubernetes", OK, "1.36.3", kind{}}, {"API a", OK, "", kind{}},
		{"Namespace a", OK, "", objectCheck}, {"Namespace b", OK, "", objectCheck},
		{"Role a/r", Unknown, "namespace a not found", objectCheck}, {"Role b/r", Unknown, "namespace b not found", objectCheck},
		{"Role a/s", Unknown, "namespace a not found", objectCheck}, {"Role a/t", Unknown, "namespace a not found", objectCheck},
		{"ClusterRole a", Failed, "forbidden", objectCheck},
		{"image a", OK, "", imageCheck}, {"image b", OK, "read from another source", imageCheck},
	})
	fmt.Print(out.String())
	// Output:
	// VERDICT  CHECK                         DETAILS
	// ok       version of Kubernetes         1.36.3
	// ok       API a
	// unknown  Role a/r and 2 other objects  namespace a not found
	// unknown  Role b/r                      namespace b not found
	// failed   ClusterRole a                 forbidden
	// ok       image b                       read from another source
	// ok       2 objects passed dry runs
	// ok       1 image can be read
}
