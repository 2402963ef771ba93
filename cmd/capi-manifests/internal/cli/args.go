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

// answers are the commands for words that users of other tools try.
var answers = map[string]string{
	"install":   "kubectl apply -k deploy/kubernetes installs the installer; capi-manifests check --pre tests the cluster before",
	"init":      "kubectl apply -k deploy/kubernetes installs the installer and the providers of its images.json; capi-manifests generate makes a bundle",
	"apply":     "kubectl apply -k deploy/kubernetes installs the installer and the providers of its images.json",
	"delete":    "kubectl delete clusterapi cluster removes the providers; docs/uninstall.md has the other commands",
	"uninstall": "kubectl delete clusterapi cluster removes the providers; docs/uninstall.md has the other commands",
	"move":      "clusterctl move, which works with installed providers of either program",
	"describe":  "kubectl describe clusterapi cluster shows the installation, and clusterctl describe cluster a Cluster",
	"upgrade":   "change images.json and release-version, and apply them again; capi-manifests status --wait waits for the rollout",
	"get":       "kubectl get clusterapi cluster, or capi-manifests status",
	"logs":      "kubectl logs deployment/capi-installer, in the namespace of the installer",
	"events":    "kubectl events --for clusterapi/cluster, or capi-manifests status",
	"suspend":   "capi-manifests pause",
	"reconcile": "the installer reconciles each change at once; capi-manifests status --wait waits for it",
}

// KnownCommand rejects unknown commands, and suggests similar commands or the way to the same end.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if answer, known := answers[args[0]]; known {
		err = fmt.Errorf("%w: %s", err, answer)
	} else if suggestions := cmd.SuggestionsFor(args[0]); len(suggestions) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(suggestions, " or "))
	}
	return &UsageError{err}
}

// Args requires a number of arguments. usage is their name and description: "SOURCE, an image or a directory".
func Args(least, most int, usage string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			name, is, _ := strings.Cut(usage, ", ")
			return &UsageError{fmt.Errorf("%s is required: %s", name, is)}
		case len(args) > most:
			return &UsageError{fmt.Errorf("accepts at most %d arg(s), received %d: %s", most, len(args), strings.Join(args, " "))}
		}
		return nil
	}
}

// OneArg requires exactly one argument, with a usage as in Args.
func OneArg(usage string) cobra.PositionalArgs { return Args(1, 1, usage) }

// NoArgs rejects arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &UsageError{fmt.Errorf("accepts no arguments, received %s", strings.Join(args, " "))}
	}
	return nil
}

// Required returns an error for every flag of names that is empty.
func Required(cmd *cobra.Command, names ...string) error {
	var errs []error
	for _, name := range names {
		if flag := cmd.Flag(name); flag.Value.String() == "" {
			_, usage := pflag.UnquoteUsage(flag)
			errs = append(errs, fmt.Errorf("required flag --%s not set: %s", name, usage))
		}
	}
	return WrongUsage(errs...)
}

// Pairs parses the key=value values of a flag.
func Pairs(flag string, values []string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, value := range values {
		key, text, found := strings.Cut(value, "=")
		if !found || key == "" {
			return nil, &UsageError{fmt.Errorf("invalid --%s %q: want key=value", flag, value)}
		}
		if other, twice := pairs[key]; twice && other != text {
			return nil, &UsageError{fmt.Errorf("duplicate --%s %s: %q and %q", flag, key, other, text)}
		}
		pairs[key] = text
	}
	return pairs, nil
}

// FlagError suggests the nearest flag for an unknown one. The flag of an unknown command is not the mistake.
func FlagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
		return KnownCommand(cmd, cmd.Flags().Args())
	}
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is && invalid.GetFlag().Value.Type() == "bool" {
		err = fmt.Errorf("invalid argument %q for --%s: want true or false", invalid.GetValue(), invalid.GetFlag().Name)
	}
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
