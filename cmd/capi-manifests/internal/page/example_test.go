// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/page"
)

func ExampleWrite() {
	const definitions = `{{define "title"}}{{.}}{{end}}{{define "style"}}header { --tone: var(--good); }
{{end}}{{define "body"}}<main>{{.}}</main>
{{end}}`
	var out bytes.Buffer
	err := page.Write(&out, definitions, nil, "<b>\x1b[2J")
	fmt.Println(err)
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "<title>") || strings.Contains(line, "<main>") || strings.Contains(line, "var(--good)") {
			fmt.Print(line)
		}
	}
	// Output:
	// <nil>
	// <title>&lt;b&gt;�[2J</title>
	// header { --tone: var(--good); }
	// <main>&lt;b&gt;�[2J</main>
}
