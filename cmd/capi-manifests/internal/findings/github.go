// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// annotation formats a workflow command of GitHub Actions. For a path that is not
// in the repository, GitHub shows the annotation without a location.
func annotation(finding contract.Finding) string {
	command := map[contract.Severity]string{contract.Error: "error", contract.Warning: "warning", contract.Info: "notice"}[finding.Severity]
	value := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	where := "file=" + property.Replace(filepath.ToSlash(finding.File))
	if finding.Line > 0 {
		where += fmt.Sprintf(",line=%d", finding.Line)
	}
	text := value.Replace(sentence(finding) + "\n" + finding.Fix)
	return term.Printable(fmt.Sprintf("::%s %s,title=%s::%s", command, where, property.Replace(finding.Rule), text)) + "\n"
}
