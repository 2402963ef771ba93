// SPDX-License-Identifier: Apache-2.0

// Package trace finds the origin of an installed object: the component, the image and the file of the bundle that contains it.
package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Query selects objects. An empty namespace selects objects of every namespace.
type Query struct {
	// Kinds are the kinds that the cluster has for the word of the user.
	Kinds           []schema.GroupKind
	Namespace, Name string
}

// matches reports whether an object is selected.
func (q Query) matches(o *unstructured.Unstructured) bool {
	return o.GetName() == q.Name && (q.Namespace == "" || o.GetNamespace() == q.Namespace) && slices.Contains(q.Kinds, object.GroupKind(o))
}

// Origin is the place of an object in a version.
type Origin struct {
	// Object is the kind, namespace and name.
	Object  string       `json:"object"`
	Version string       `json:"version"`
	Role    rollout.Role `json:"role,omitempty"`
	// Component is the component with the object.
	Component v1alpha1.Component `json:"component"`
	// File is the path in the image; empty if the component comes from transport ConfigMaps.
	File string `json:"file,omitempty"`
	// Number is the position of the object in the file, from 1, and Objects the number of objects in it.
	Number  int `json:"number"`
	Objects int `json:"objects"`
}

// Origins returns the places of the selected objects, the newest version first. stored is sorted, oldest first.
func Origins(query Query, stored []installed.Stored, report rollout.Report) []Origin {
	origins := []Origin{}
	for _, version := range slices.Backward(stored) {
		components := version.Set.Components()
		var known rollout.Version // of the status
		if at := slices.IndexFunc(report.Versions, func(v rollout.Version) bool { return v.Name == version.Name }); at >= 0 {
			known = report.Versions[at]
		}
		for i, part := range version.Set.Operands {
			component := withProfile(components[i], known.Components)
			origins = append(origins, inComponent(query, part, Origin{Version: version.Name, Role: known.Role, Component: component})...)
		}
	}
	return origins
}

func inComponent(query Query, part operand.Operand, at Origin) (origins []Origin) {
	for i, o := range part.Objects {
		if !query.matches(o) {
			continue
		}
		found := at
		found.Object, found.Number, found.Objects = object.Describe(o), i+1, len(part.Objects)
		if found.Component.Image != "" {
			found.File = extractor.ManifestsPath(found.Component.Profile)
		}
		origins = append(origins, found)
	}
	return origins
}

// withProfile adds the profile from the status, because the stored objects lack it.
func withProfile(component v1alpha1.Component, known []v1alpha1.Component) v1alpha1.Component {
	for _, candidate := range known {
		if candidate.Name == component.Name && candidate.ContentID == component.ContentID {
			return candidate
		}
	}
	return component
}

// Text writes the origins, each as a paragraph.
func Text(out *bytes.Buffer, origins []Origin) {
	for i, origin := range origins {
		if i > 0 {
			out.WriteString("\n")
		}
		version := origin.Version
		if origin.Role != "" {
			version += " (" + string(origin.Role) + ")"
		}
		component := strings.TrimSpace(origin.Component.Name + " " + origin.Component.Version)
		if origin.Component.Type != "" {
			component += " (" + origin.Component.Type + ")"
		}
		rows := [][]string{{"Object:", origin.Object}, {"Version:", version}, {"Component:", component}}
		if origin.Component.Image != "" {
			key := "key " + origin.Component.Source + " of images.json"
			if origin.Component.Overridden {
				key = "override of " + origin.Component.Source
			}
			rows = append(rows, []string{"Image:", fmt.Sprintf("%s (%s)", origin.Component.Image, key)}, []string{"File:", origin.File})
		} else {
			rows = append(rows, []string{"ConfigMaps:", strings.Join(origin.Component.ConfigMaps, ", ")})
		}
		term.Aligned(out, append(rows, []string{"Position:", fmt.Sprintf("object %d of %d", origin.Number, origin.Objects)}))
	}
}
