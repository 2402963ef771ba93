// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// Kinds returns the kinds for a word that kubectl accepts, such as deploy, Deployment or deployments.apps. It is empty if the cluster
// has no such kind.
func (c *Cluster) Kinds(word string) ([]schema.GroupKind, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(client)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	full, short := schema.ParseResourceArg(strings.ToLower(word))
	if full == nil {
		full = new(short.WithVersion(""))
	}
	found, err := mapper.KindsFor(*full)
	if meta.IsNoMatchError(err) {
		found, err = mapper.KindsFor(short.WithVersion(""))
	}
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.failed(clusterAPIs, "", err)
	}
	var kinds []schema.GroupKind
	for _, kind := range found {
		if !slices.Contains(kinds, kind.GroupKind()) {
			kinds = append(kinds, kind.GroupKind())
		}
	}
	return kinds, nil
}
