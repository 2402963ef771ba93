// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// typeConverter reads objects by the schema of Kubernetes' own kinds, as server-side apply does. It is created on first
// use, because parsing the schema takes a fraction of a second.
var typeConverter = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// duplicateEntry is the error of server-side apply for two items of a list with equal keys.
var duplicateEntry = regexp.MustCompile(`^(\S*): (duplicate entries for key .*)$`)

// checkListKeys finds items of a list with equal keys. Without server-side apply the API server accepts some of them.
func checkListKeys(b *contract.Bundle, o *contract.Object) contract.Findings {
	findings := equalKeys(o)
	for i, f := range findings {
		if b.Release != nil && acceptedOnCreate.MatchString(f.Field) {
			findings[i].Severity = contract.Warning
		}
	}
	return findings
}

var acceptedOnCreate = regexp.MustCompile(`[cC]ontainers\[[0-9]+\]\.(env|ports)$|x-kubernetes-validations\[`)

func equalKeys(o *contract.Object) (findings contract.Findings) {
	if o.Kind == object.CustomResourceDefinition {
		for value := range o.At("spec", "versions").All() {
			findings = append(findings, repeated(value.At("x-kubernetes-validations"), "rule")...)
		}
		return findings
	}
	if typeFor(o) == nil {
		return nil
	}
	data, err := o.JSON()
	if err != nil || variable.Contains(data) && !strings.Contains(string(data), "[") {
		return nil // reported by another rule
	}
	object := &unstructured.Unstructured{}
	if object.UnmarshalJSON(data) != nil {
		return nil
	}
	_, err = typeConverter().ObjectToTyped(object)
	if err == nil {
		return nil
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = strings.TrimSpace(line)
		if _, after, found := strings.Cut(line, "errors:"); found {
			line = strings.TrimSpace(after)
		}
		if match := duplicateEntry.FindStringSubmatch(line); match != nil {
			findings = append(findings, reachedByKeys(o, match[1]).Finding("%s", match[2])...)
		}
	}
	return findings
}

// repeated finds items of a list with equal fields.
func repeated(list contract.Value, field string) (findings contract.Findings) {
	seen := map[string]bool{}
	for _, item := range list.Items() {
		value := item.At(field)
		if seen[value.Text()] && value.Text() != "" {
			findings = append(findings, value.Finding("%s %s occurs twice", field, value.Text())...)
		}
		seen[value.Text()] = true
	}
	return findings
}

// keyedStep is a step of a path of server-side apply: .name or [key="value"].
var keyedStep = regexp.MustCompile(`\.([^.\[]+)|\[([^=\]]+)="?([^",\]]*)"?[^\]]*\]`)

// reachedByKeys returns the deepest existing value of a path such as .spec.containers[name="manager"].env.
func reachedByKeys(o *contract.Object, path string) contract.Value {
	at := o.Value
	for _, step := range keyedStep.FindAllStringSubmatch(path, -1) {
		next := at.At(step[1]) // missing if the step is a key
		for _, item := range at.Items() {
			if step[2] != "" && item.At(step[2]).Text() == step[3] {
				next = item
				break
			}
		}
		if !next.Exists() {
			break
		}
		at = next
	}
	return at
}

// electsLeader reports whether an argument enables leader election.
func electsLeader(argument string) bool {
	name, value, hasValue := strings.Cut(argument, "=")
	return slices.Contains([]string{"--leader-elect", "--enable-leader-election", "--leader-election"}, name) && (!hasValue || value == "true")
}

// checkLeaderElection looks for the permission to write Leases, the only lock that client-go has had since Kubernetes 1.24.
// Only the creation needs a rule without resourceNames. A controller with an older client-go can have a ConfigMap as its
// lock.
func checkLeaderElection(b *contract.Bundle) contract.Findings {
	return eachContainer(func(container contract.Value) contract.Findings {
		for _, argument := range container.At("args").Items() {
			if !electsLeader(argument.Text()) {
				continue
			}
			verb, lacks := b.Grants.OnSomeName().Lacks("coordination.k8s.io", contract.Need("leases", "get", "update"))
			if !lacks {
				verb, lacks = b.Grants.Lacks("coordination.k8s.io", contract.Need("leases", "create"))
			}
			if !lacks {
				continue
			}
			finding := argument.Finding("%s enables leader election, but no role allows it to %s leases in coordination.k8s.io", contract.NameOf(container), verb)
			if _, lacksOld := b.Grants.OnSomeName().Lacks("", contract.Need("configmaps", "get", "create", "update")); !lacksOld {
				finding = finding.As(contract.Warning)
			}
			return finding
		}
		return nil
	})(b)
}
