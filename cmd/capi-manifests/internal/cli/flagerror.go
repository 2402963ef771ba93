// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/internal/text"
)

// FlagError suggests the nearest flag for an unknown one.
func FlagError(cmd *cobra.Command, err error) error {
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
		name := unknown.GetSpecifiedName()
		if shorthands := unknown.GetSpecifiedShortnames(); shorthands != "" { // -name is a flag name to other tools
			name = shorthands
		}
		name, _, _ = strings.Cut(name, "=")
		var flags []string
		cmd.Flags().VisitAll(func(flag *pflag.Flag) { flags = append(flags, flag.Name) })
		if nearest := text.Nearest(name, flags); nearest != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, nearest)
		}
	}
	return &UsageError{err}
}

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
