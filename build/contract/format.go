// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RuleOfYAML is the ID of the rule that manifests are YAML, and objects.
const RuleOfYAML = "bundle/yaml-parse"

// formatRules are about the manifests file as such.
var formatRules = []Rule{{
	ID:       RuleOfYAML,
	Severity: Error,
	Source:   ours("Manifests"),
	Why:      "The manifests are one file of YAML documents, each a Kubernetes object or a list of them. Nothing is installed of a file that holds anything else.",
	Fix:      "Correct the document; the line in the message is where the parser noticed.",
	Check:    func(b *Bundle) []Finding { return b.unreadable },
}, {
	ID:       "bundle/yaml-strict",
	Severity: Error,
	Source:   ours("Manifests"),
	Why:      "Of two equal keys one would be lost without a word, so the installer refuses the document.",
	Fix:      "Keep one of the keys.",
	Check: eachObject(func(o *Object) (findings []Finding) {
		for value := range o.All() {
			findings = append(findings, duplicateKeys(value)...)
		}
		return findings
	}),
}, {
	ID:       "bundle/no-empty-documents",
	Severity: Warning,
	Source:   ours("Manifests"),
	Why:      "The installer and clusterctl skip a document of nothing but comments. Other readers of bundles take it for an object without a kind, and fail.",
	Fix:      "Remove the document: one of the --- around it.",
	Check:    checkEmpty,
}, {
	ID:       "bundle/no-lists",
	Severity: Warning,
	Source:   ours("Manifests"),
	Why:      "The installer takes the objects out of a list. clusterctl does not: to it a list is one object, of a kind that no API server has.",
	Fix:      "Write the objects of the list as documents of their own.",
	Check: func(b *Bundle) (findings []Finding) {
		for _, list := range b.lists {
			findings = append(findings, list.At("kind").finding("stands for the objects in it"))
		}
		return findings
	},
}, {
	ID:       "bundle/typemeta",
	Severity: Error,
	Source:   ours("Manifests"),
	Why:      "An object is applied by its kind and its name; without them there is no request that the API server could be asked.",
	Fix:      "Give the object apiVersion, kind and metadata.name, in quotes if YAML takes the text for something else.",
	Check:    eachObject(checkIdentity),
}, {
	ID:       "bundle/duplicate-object",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Manifests"),
	Why:      "The installer applies an object once and checks that nothing else writes to it. Two of the same group, kind, namespace and name would undo each other.",
	Fix:      "Remove one of them, or give it another name.",
	Check:    checkUnique,
}, {
	ID:       "bundle/no-server-metadata",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Manifests"),
	Why:      "These fields belong to the API server and to the installer. Applied, they name objects of another cluster; the installer refuses them.",
	Fix:      "Remove the fields; they come from an object that was read out of a cluster.",
	Check: eachObject(func(o *Object) (findings []Finding) {
		for _, field := range []string{"uid", "resourceVersion", "generation", "generateName", "finalizers", "ownerReferences"} {
			if value := o.At("metadata", field); value.Text() != "" && value.Text() != "0" || value.length() > 0 {
				findings = append(findings, value.finding("%s is not for manifests", field))
			}
		}
		return findings
	}),
}}

// checkEmpty lets nothing but blank lines stand before the first document and after the last.
func checkEmpty(b *Bundle) (findings []Finding) {
	for _, d := range b.empty {
		if len(bytes.TrimSpace(d.text)) == 0 || bytes.HasPrefix(d.text, []byte("...")) {
			continue
		}
		findings = append(findings, Finding{File: ManifestsFile, Line: d.before + 1, Message: "there is nothing in this document"})
	}
	return findings
}

// eachObject makes a check of all objects out of one of one object.
func eachObject(check func(*Object) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding { return each(b.Objects, check) }
}

// each checks objects one by one.
func each(objects []*Object, check func(*Object) []Finding) (findings []Finding) {
	for _, o := range objects {
		findings = append(findings, check(o)...)
	}
	return findings
}

func duplicateKeys(v Value) (findings []Finding) {
	seen := map[string]bool{}
	for key, value := range v.Fields() {
		if seen[key] {
			findings = append(findings, value.finding("the key %q is there twice", key))
		}
		seen[key] = true
	}
	return findings
}

func checkIdentity(o *Object) (findings []Finding) {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		value := o.At(path...)
		isNeeded := path[len(path)-1] != "namespace"
		switch {
		case !isNeeded && !value.Exists():
		case !value.Exists():
			findings = append(findings, value.finding("%s is missing", value.Path))
		case !value.isString():
			findings = append(findings, value.finding("%s is not a string", value.Path))
		case isNeeded && value.Text() == "":
			findings = append(findings, value.finding("%s is empty", value.Path))
		}
	}
	return findings
}

func checkUnique(b *Bundle) (findings []Finding) {
	type identity struct {
		kind            schema.GroupKind
		namespace, name string
	}
	first := map[identity]*Object{}
	for _, o := range b.Objects {
		id := identity{o.Kind, o.Namespace, o.Name}
		if other, twice := first[id]; twice && o.Name != "" {
			findings = append(findings, o.finding("is there already, on line %d", other.line()))
			continue
		}
		first[id] = o
	}
	return findings
}
