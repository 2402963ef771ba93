// SPDX-License-Identifier: Apache-2.0

package diffreport_test

import (
	"bytes"
	"fmt"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/diffreport"
)

func ExampleNew() {
	same := []diff.Provider{{Name: "cluster-api", Type: "core", Version: "v1.10.2"}}
	report := diffreport.New("old/images.json", "new/images.json", same, same)
	var text bytes.Buffer
	if err := report.Write(&text, diffreport.Text, false, false); err != nil {
		fmt.Println(err)
	}
	fmt.Print(text.String())
	// Output: SAME  old/images.json -> new/images.json
}
