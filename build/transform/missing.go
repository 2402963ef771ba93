// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// MissingSecrets returns a message for each Secret that pods require and neither an object nor the authority of the profile creates. It
// names the transform that dropped the Secret.
func MissingSecrets(objects []*unstructured.Unstructured, profile extractor.ClusterProfile, results []Result) (missing []string) {
	created := createdSecrets(objects, authorityOf(profile))
	for _, o := range objects {
		for _, secret := range requiredSecrets(o) {
			if created[secret] {
				continue
			}
			reason := "which is not part of the bundle"
			if transform := droppedBy(results, object.Secret.Kind, secret); transform != "" {
				reason = "which transform " + transform + " dropped"
			}
			missing = append(missing, fmt.Sprintf("%s requires Secret %s, %s; its pods wait until it is created", object.Describe(o), secret, reason))
		}
	}
	return missing
}

func createdSecrets(objects []*unstructured.Unstructured, ca authority) map[string]bool {
	created := map[string]bool{}
	for _, o := range objects {
		switch object.GroupKind(o) {
		case object.Secret:
			created[o.GetName()] = true
		case object.Service:
			created[o.GetAnnotations()[ca.serving]] = true
		case object.Certificate:
			created[object.TextAt(o.Object, "spec", "secretName")] = true
		}
	}
	return created
}

// droppedBy returns the transform that dropped an object, in any namespace; empty if no transform did.
func droppedBy(results []Result, kind, name string) string {
	for _, result := range results {
		for _, dropped := range result.Dropped {
			its, id, _ := strings.Cut(dropped, " ")
			if its == kind && id[strings.LastIndex(id, "/")+1:] == name {
				return result.Transform
			}
		}
	}
	return ""
}

// mountedSecrets returns the names of the Secrets that the pods of o mount and require.
func mountedSecrets(o *unstructured.Unstructured) []string {
	var secrets []string
	for _, volume := range object.MapsAt(object.PodTemplate(o), "spec", "volumes") {
		secrets = appendRequired(secrets, object.MapAt(volume, "secret"), "secretName")
		for _, source := range object.MapsAt(volume, "projected", "sources") {
			secrets = appendRequired(secrets, object.MapAt(source, "secret"), "name")
		}
	}
	return secrets
}

// requiredSecrets returns the names of the Secrets that the pods of o mount or take variables from, each once.
func requiredSecrets(o *unstructured.Unstructured) []string {
	secrets := mountedSecrets(o)
	for _, container := range object.Containers(o) {
		for _, from := range object.MapsAt(container, "envFrom") {
			secrets = appendRequired(secrets, object.MapAt(from, "secretRef"), "name")
		}
		for _, variable := range object.MapsAt(container, "env") {
			secrets = appendRequired(secrets, object.MapAt(variable, "valueFrom", "secretKeyRef"), "name")
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets)
}

// appendRequired appends the name in a reference, unless the reference is optional.
func appendRequired(names []string, reference map[string]any, field string) []string {
	optional, _ := reference["optional"].(bool)
	if name := object.TextAt(reference, field); name != "" && !optional {
		names = append(names, name)
	}
	return names
}
