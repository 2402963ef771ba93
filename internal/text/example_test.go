// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/internal/text"
)

func ExampleTruncate() {
	fmt.Println(text.Truncate("größer", 6))
	fmt.Println(text.Truncate("größer", 4))
	fmt.Println(text.Truncate("größer", 3))
	fmt.Printf("%q\n", text.Truncate("a\xffbcd", 3))
	fmt.Println(text.Truncate("größer", 8))
	// Output:
	// größ…
	// grö…
	// gr…
	// "ab…"
	// größer
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
