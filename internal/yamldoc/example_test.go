// SPDX-License-Identifier: Apache-2.0

package yamldoc_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

func ExampleSplitNonEmpty() {
	for _, document := range yamldoc.SplitNonEmpty([]byte("# a license\n---\nkind: A\n---\nkind: B\n")) {
		fmt.Println(document.Number, document.Line)
	}
	// Output:
	// 1 3
	// 2 5
}

func ExampleObjects() {
	objects, err := yamldoc.Objects([]byte("kind: A\n---\nkind: List\napiVersion: v1\nitems: [{kind: B}]\n"))
	for _, o := range objects {
		fmt.Println(o.GetKind())
	}
	fmt.Println(err)
	// Output:
	// A
	// B
	// <nil>
}
