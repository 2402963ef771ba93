// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"slices"
	"strings"

	"sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Hook is a Runtime Hook of Cluster API.
type Hook struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	Version string `json:"version"`
	// Blocking reports whether an answer can delay Cluster API with retryAfterSeconds.
	Blocking bool `json:"blocking"`
	// Deprecated reports whether a later release of Cluster API can remove this version of the hook.
	Deprecated bool `json:"deprecated"`
	// Path is the path of the requests, with {name} for the name of the handler.
	Path string `json:"path"`
	// Request and Response are the kinds of both.
	Request  string `json:"request"`
	Response string `json:"response"`
	Summary  string `json:"summary"`

	description string
	tags        []string
}

// discovery is the name of the hook that every server implements.
const discovery = "Discovery"

// Hooks returns the hooks of Cluster API, sorted by name and version.
func Hooks() []Hook {
	var hooks []Hook
	known := newCatalog()
	for gvh, descriptor := range known.AllKnownHooks() {
		response, err := known.NewResponse(gvh)
		_, blocking := response.(hooksv1.RetryResponseObject)
		h := Hook{
			Name: gvh.Hook, Group: gvh.Group, Version: gvh.Version, Blocking: err == nil && blocking, Deprecated: descriptor.Metadata.Deprecated,
			Request: descriptor.Request.Kind, Response: descriptor.Response.Kind, Summary: descriptor.Metadata.Summary,
			description: descriptor.Metadata.Description, tags: descriptor.Metadata.Tags,
		}
		h.Path = h.PathOf("{name}")
		hooks = append(hooks, h)
	}
	slices.SortFunc(hooks, func(a, b Hook) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	return hooks
}

// newCatalog returns Cluster API's catalog of hooks.
func newCatalog() *catalog.Catalog {
	known := catalog.New()
	if err := hooksv1.AddToCatalog(known); err != nil {
		panic(err) // the hooks are part of the program
	}
	return known
}

// hookOf returns a hook; false if Cluster API does not have it.
func hookOf(apiVersion, name string) (Hook, bool) {
	for _, h := range Hooks() {
		if h.APIVersion() == apiVersion && h.Name == name {
			return h, true
		}
	}
	return Hook{}, false
}

// discoveryHook returns the hook that every server implements.
func discoveryHook() Hook {
	h, _ := hookOf(hooksv1.GroupVersion.String(), discovery)
	return h
}

// APIVersion returns group and version of the hook and of its requests and responses.
func (h Hook) APIVersion() string { return h.Group + "/" + h.Version }

// PathOf returns the path of requests to a handler. The hook Discovery has one path without the name of a handler.
func (h Hook) PathOf(handler string) string {
	if h.Name == discovery {
		handler = ""
	}
	return catalog.GVHToPath(h.gvh(), handler)
}

// schema is the name of the schema of a kind of the hook.
func (h Hook) schema(kind string) string { return "hooks." + h.Version + "." + kind }

// gvh is the key of the hook in the catalog.
func (h Hook) gvh() catalog.GroupVersionHook {
	return catalog.GroupVersionHook{Group: h.Group, Version: h.Version, Hook: h.Name}
}
