// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"
)

// objectRules are about each object as Kubernetes reads it.
var objectRules = []Rule{{
	ID:       "bundle/typed-decode",
	Severity: Error,
	Source:   kubernetes("Server Side Field Validation", "reference/using-api/api-concepts/"),
	Why:      "A field that is misspelled or of another type than Kubernetes knows is refused, or lost without a word.",
	Fix:      "Correct the name or the type of the field.",
	Check:    eachObject(checkDecodes),
}, {
	ID:       "bundle/served-api-version",
	Severity: Error,
	Source:   kubernetes("Deprecated API Migration Guide", "reference/using-api/deprecation-guide/"),
	Why:      "No Kubernetes that is maintained serves this version any more, and so no OpenShift.",
	Fix:      "Use the version that replaced it, as the guide says.",
	Check: eachObject(func(o *Object) []Finding {
		version := o.At("apiVersion")
		if kinds, isRemoved := removed[version.Text()]; !isRemoved || kinds != nil && !slices.Contains(kinds, o.Kind.Kind) {
			return nil
		}
		return []Finding{version.finding("%s is served no more", version.Text())}
	}),
}, {
	ID:       "bundle/name-valid",
	Severity: Error,
	Source:   kubernetes("Object Names and IDs", "concepts/overview/working-with-objects/names/"),
	Why:      "The API server refuses names, labels and annotations that are not well-formed.",
	Fix:      "Correct the name, label or annotation as the message says.",
	Check:    eachObject(checkNames),
}, {
	ID:       "bundle/no-status",
	Severity: Warning,
	Source:   ours("Manifests"),
	Why:      "The status is what a controller found in a cluster. In manifests it is of another cluster, and the API server drops it.",
	Fix:      "Remove the status.",
	Check: eachObject(func(o *Object) []Finding {
		if status := o.At("status"); saysStatus(status) {
			return []Finding{status.finding("the object has a status")}
		}
		return nil
	}),
}, {
	ID:       "bundle/cluster-scoped-no-namespace",
	Severity: Warning,
	Source:   ours("Objects"),
	Why:      "The API server drops the namespace of an object that lives in none, so that what is applied is not what was written.",
	Fix:      "Remove metadata.namespace.",
	Check: eachObject(func(o *Object) []Finding {
		namespaced, known := installable[o.Kind]
		if !known || namespaced || o.Namespace == "" {
			return nil
		}
		return []Finding{o.At("metadata", "namespace").finding("a %s is in no namespace", o.Kind.Kind)}
	}),
}, {
	ID:       "bundle/object-size",
	Severity: Error,
	Source:   kubernetes("Operating etcd clusters for Kubernetes", "tasks/administer-cluster/configure-upgrade-etcd/"),
	Why:      "etcd takes no request of more than 1.5 MiB, so the API server cannot store the object.",
	Fix:      "Make the object smaller: leave descriptions out of a CRD, or serve fewer versions.",
	Check:    eachObject(largerThan(maxObject, "the object has %d bytes as JSON, more than etcd takes")),
}, {
	ID:       "bundle/last-applied-size",
	Severity: Info,
	Source:   kubernetes("Attaching metadata to objects: size", "concepts/overview/working-with-objects/annotations/"),
	Why:      "\"kubectl apply\" keeps a copy of the object in an annotation, which may have 256 KiB. The installer and clusterctl keep none, and have no such limit.",
	Fix:      "Use \"kubectl apply --server-side\" where the object is applied by hand.",
	Check:    eachObject(largerThan(maxAnnotations, "the object has %d bytes as JSON, more than \"kubectl apply\" can remember")),
}, {
	ID:       "bundle/no-plaintext-credentials",
	Severity: Warning,
	Source:   kubernetes("Good practices for Kubernetes Secrets", "concepts/security/secrets-good-practices/"),
	Why:      "Whoever can pull the image, or get the release, can read its manifests.",
	Fix:      "Take the credential out, and revoke it.",
	Check: eachObject(func(o *Object) (findings []Finding) {
		for value := range o.All() {
			if o.Kind != crdKind && credential.MatchString(value.Text()) { // descriptions have examples
				findings = append(findings, value.finding("this looks like a credential"))
			}
		}
		return findings
	}),
}, {
	ID:       "bundle/yaml11-scalars",
	Severity: Warning,
	Source:   ours("Manifests"),
	Why:      "Kubernetes reads YAML 1.1, in which a bare y, n, yes, no, on or off is a boolean. Most other parsers read a text.",
	Fix:      "Put the text in quotes, or write true or false.",
	Check: eachObject(func(o *Object) (findings []Finding) {
		for value := range o.All() {
			if value.isString() && value.node.Style == 0 && isOldBoolean(value.Text()) {
				findings = append(findings, value.finding("the bare %s is a boolean for some parsers, a text for others", value.Text()))
			}
		}
		return findings
	}),
}}

const (
	maxObject      = 3 << 19 // 1.5 MiB, the limit of requests to etcd
	maxAnnotations = 256 << 10
)

// removed are versions that are served no more, with the kinds if not all are gone.
var removed = map[string][]string{
	"apiextensions.k8s.io/v1beta1":         nil,
	"admissionregistration.k8s.io/v1beta1": {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"},
	"apiregistration.k8s.io/v1beta1":       nil,
	"apps/v1beta1":                         nil,
	"apps/v1beta2":                         nil,
	"autoscaling/v2beta1":                  nil,
	"autoscaling/v2beta2":                  nil,
	"batch/v1beta1":                        nil,
	"coordination.k8s.io/v1beta1":          {"Lease"},
	"extensions/v1beta1":                   nil,
	"networking.k8s.io/v1beta1":            {"Ingress", "IngressClass"},
	"policy/v1beta1":                       nil,
	"rbac.authorization.k8s.io/v1alpha1":   nil,
	"rbac.authorization.k8s.io/v1beta1":    nil,
	"scheduling.k8s.io/v1alpha1":           nil,
	"scheduling.k8s.io/v1beta1":            {"PriorityClass"},
}

// credential is a private key, or an access key of AWS.
var credential = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)[0-9A-Z]{16}\b`)

func isOldBoolean(text string) bool {
	return slices.Contains([]string{"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"}, text)
}

// saysStatus says whether a status holds more than the empty one that generators write.
func saysStatus(status Value) bool {
	for value := range status.All() {
		if value.node != nil && value.node.Kind == yaml.ScalarNode && value.Exists() && value.Text() != "" {
			return true
		}
	}
	return false
}

// checkDecodes reads an object of a kind that Kubernetes has by its Go type, as strictly as the API server.
// What a variable without default stands for is not known.
func checkDecodes(o *Object) (findings []Finding) {
	into := typeFor(o)
	if into == nil {
		return nil
	}
	data, err := o.json()
	if err != nil {
		return nil // another rule
	}
	if strings.Contains(string(data), "${") {
		return nil
	}
	unknown, err := json.UnmarshalStrict(data, into)
	for _, problem := range unknown {
		findings = append(findings, o.finding("%v", problem))
	}
	if err != nil {
		findings = append(findings, o.finding("%v", err))
	}
	return findings
}

// typeFor is an empty object of a kind that Kubernetes has, nil for any other.
func typeFor(o *Object) any {
	gv, err := schema.ParseGroupVersion(o.At("apiVersion").Text())
	if err != nil {
		return nil
	}
	if gv == apiextensionsv1.SchemeGroupVersion && o.Kind == crdKind {
		return &apiextensionsv1.CustomResourceDefinition{}
	}
	var typed runtime.Object
	if typed, err = scheme.Scheme.New(gv.WithKind(o.Kind.Kind)); err != nil {
		return nil
	}
	return typed
}

// checkNames checks what the API server checks of every object's metadata.
func checkNames(o *Object) (findings []Finding) {
	name := o.At("metadata", "name")
	if name.isString() && !strings.Contains(o.Name, "${") {
		for _, problem := range problemsOfName(o) {
			findings = append(findings, name.finding("%q: %s", o.Name, problem))
		}
	}
	labels := o.At("metadata", "labels")
	for key, value := range labels.Fields() {
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value.Text())...)
		if !strings.Contains(key+value.Text(), "${") && len(problems) > 0 {
			findings = append(findings, value.finding("%s", strings.Join(problems, "; ")))
		}
	}
	annotations := map[string]string{}
	for key, value := range o.At("metadata", "annotations").Fields() {
		annotations[key] = value.Text()
	}
	for _, problem := range apivalidation.ValidateAnnotations(annotations, field.NewPath("annotations")) {
		if !strings.Contains(problem.Error(), "${") {
			findings = append(findings, o.At("metadata", "annotations").finding("%s", explain(problem)))
		}
	}
	return findings
}

// problemsOfName tells what is wrong with a name, which depends on the kind.
func problemsOfName(o *Object) []string {
	switch {
	case o.Name == "":
		return nil // another rule
	case o.Kind.Group == rbacGroup:
		return content.IsPathSegmentName(o.Name)
	case o.Kind == serviceKind:
		return validation.IsDNS1035Label(o.Name)
	}
	return validation.IsDNS1123Subdomain(o.Name)
}

// largerThan looks for objects of more bytes as JSON.
func largerThan(limit int, message string) func(*Object) []Finding {
	return func(o *Object) []Finding {
		data, err := o.json()
		if err != nil || len(data) <= limit {
			return nil
		}
		return []Finding{o.finding(message, len(data))}
	}
}
