// SPDX-License-Identifier: Apache-2.0

package term_test

import (
	"bytes"
	"fmt"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

func ExamplePrintable() {
	fmt.Println(term.Printable("name\x1b[31m with a color\nand a line break"))
	// Output: name�[31m with a color; and a line break
}

func ExampleColumns() {
	var table bytes.Buffer
	term.Columns(&table, []string{"KIND", "COUNT"}, [][]string{{"Deployment", "1"}, {"Role", "12"}})
	fmt.Print(table.String())
	// Output:
	// KIND        COUNT
	// Deployment  1
	// Role        12
}

func ExamplePlural() {
	fmt.Println(term.Plural(1, "object", "objects"), term.Plural(2, "object", "objects"))
	// Output: 1 object 2 objects
}
