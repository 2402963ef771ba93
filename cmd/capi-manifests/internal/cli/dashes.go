// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// DoubleDashes adds a dash to long flags that have only one, such as
// "-kustomize-dir": Go's flag package, and so manifests-gen, accepts both.
func DoubleDashes(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil {
		return args
	}
	result := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(result, args[i:]...)
		}
		name, isShort := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if isShort && len(name) > 1 && cmd.Flags().Lookup(name) != nil {
			arg = "-" + arg
		}
		result = append(result, arg)
	}
	return result
}
