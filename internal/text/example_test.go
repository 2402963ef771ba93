// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/internal/text"
)

func ExampleTruncate() {
	fmt.Println(text.Truncate("größer", 8))
	fmt.Println(text.Truncate("größer", 7))
	fmt.Println(text.Truncate("größer", 6))
	fmt.Println(text.Truncate("größer", 2))
	fmt.Printf("%q\n", text.Truncate("a\xffbcdef", 6))
	// Output:
	// größer
	// gr…er
	// g…er
	// …
	// "a…ef"
}

func ExampleFirst() {
	fmt.Println(text.First(2, []string{"a", "b"}))
	fmt.Println(text.First(2, []string{"a", "b", "c"}))
	fmt.Printf("%q\n", text.First[string](2, nil))
	// Output:
	// a, b
	// a, b and 1 more
	// ""
}
