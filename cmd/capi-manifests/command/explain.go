// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/extension"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

const explainLong = `Explain a validation rule: the consequence of a violation, the fix and the source, with manifests
that keep the rule and manifests that violate it, or answers of servers for rules of "extension test".
Without an argument all rules are listed, and with the first part of a name the rules of that group.`

const explainExample = `  capi-manifests explain
  capi-manifests explain installer
  capi-manifests explain installer/no-secret`

// explanation is the output form of a rule.
type explanation struct {
	ID       string            `json:"id"`
	Severity contract.Severity `json:"severity"`
	Forms    []contract.Form   `json:"forms"`
	Why      string            `json:"why"`
	Fix      string            `json:"fix"`
	Source   contract.Source   `json:"source"`
	// Good and Bad are manifests that comply with the rule and manifests that
	// violate it, at comments that begin with "<-".
	Good string `json:"good"`
	Bad  string `json:"bad"`

	about string // the kind of input that the rule checks
}

func newExplain() *cobra.Command {
	var format output
	cmd := &cobra.Command{
		Use:     "explain [RULE]",
		Short:   "Explain a validation rule",
		Long:    explainLong,
		Example: explainExample,
		Args:    knownRule,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return ruleIDs(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := explanations(args)
			if err != nil {
				return err
			}
			if len(args) == 0 || len(rulesOf(args[0])) > 0 {
				return format.write(cmd.OutOrStdout(), all, func(w *bytes.Buffer) { listRules(w, all) })
			}
			return format.write(cmd.OutOrStdout(), all[0], all[0].text)
		},
	}
	format.register(cmd)
	return cmd
}

// allRules returns the rules of validate and of "extension test".
func allRules() []contract.Rule { return append(contract.Rules(), extension.ContractRules()...) }

func ruleIDs() []string {
	var ids []string
	for _, rule := range allRules() {
		ids = append(ids, rule.ID)
	}
	return ids
}

// knownRule rejects unknown rules and suggests similar ones.
func knownRule(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0, len(args) == 1 && (slices.Contains(ruleIDs(), args[0]) || len(rulesOf(args[0])) > 0):
		return nil
	case len(args) > 1:
		return &usageError{fmt.Errorf("accepts at most 1 arg(s), received %d: %s", len(args), strings.Join(args, " "))}
	}
	const few = 5
	unlike := func(id string) bool { return !strings.Contains(id, args[0]) && editDistance(id, args[0]) > 2 }
	if like := slices.DeleteFunc(ruleIDs(), unlike); len(like) > 0 && len(like) <= few {
		return &usageError{fmt.Errorf("unknown rule %q; did you mean %s?", args[0], strings.Join(like, " or "))}
	}
	return &usageError{fmt.Errorf("unknown rule %q; \"capi-manifests explain\" lists all rules", args[0])}
}

// rulesOf returns the rules of a group, such as "installer".
func rulesOf(group string) []string {
	prefix := strings.TrimSuffix(group, "/") + "/"
	return slices.DeleteFunc(ruleIDs(), func(id string) bool { return !strings.HasPrefix(id, prefix) })
}

// explanations returns the explanations of a rule, of a group of rules, or of all
// rules.
func explanations(ids []string) ([]explanation, error) {
	var all []explanation
	for _, rule := range allRules() {
		if len(ids) > 0 && rule.ID != ids[0] && !slices.Contains(rulesOf(ids[0]), rule.ID) {
			continue
		}
		example, err := rule.Example()
		if err != nil {
			return nil, err
		}
		all = append(all, explanation{rule.ID, rule.Severity, rule.Forms(), rule.Why, rule.Fix, rule.Source, example.Good, example.Bad, rule.About()})
	}
	return all, nil
}

func listRules(w *bytes.Buffer, all []explanation) {
	term.Columns(w, []string{"RULE", "SEVERITY", "ABOUT", "SOURCE"}, term.Rows(all, func(e explanation) []string {
		return []string{e.ID, string(e.Severity), e.about, e.Source.Document + ", " + e.Source.Section}
	}))
}

func (e explanation) text(w *bytes.Buffer) {
	fmt.Fprintf(w, "%s (%s, about %s)\n\n%s\n\n%s\n\nSource: %s\n", e.ID, e.Severity, e.about, e.Why, e.Fix, e.Source)
	fmt.Fprintf(w, "\nGood:\n\n%s\nBad, at each \"<-\":\n\n%s", indented(e.Good), indented(e.Bad))
}

func indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("    " + line)
	}
	return out.String()
}
