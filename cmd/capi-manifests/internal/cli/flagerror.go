// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/internal/text"
)

// FlagError suggests similar flags for an unknown one.
func FlagError(cmd *cobra.Command, err error) error {
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
		name := unknown.GetSpecifiedName()
		if shorthands := unknown.GetSpecifiedShortnames(); shorthands != "" { // -name is a flag name to other tools
			name = shorthands
		}
		name, _, _ = strings.Cut(name, "=")
		if like := flagsLike(cmd, name); len(like) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(like, " or "))
		}
	}
	return &UsageError{err}
}

// flagsLike returns the flags whose name contains name, is contained in it, or differs in at most two letters, best first.
func flagsLike(cmd *cobra.Command, name string) []string {
	const most = 3
	type match struct {
		flag     string
		distance int
	}
	var matches []match
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		distance := text.EditDistance(name, flag.Name)
		part := len(name) > 2 && (strings.Contains(flag.Name, name) || strings.Contains(name, flag.Name))
		if distance <= 2 || part {
			matches = append(matches, match{"--" + flag.Name, distance})
		}
	})
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(a.distance, b.distance) })
	var like []string
	for _, m := range matches[:min(len(matches), most)] {
		like = append(like, m.flag)
	}
	return like
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
