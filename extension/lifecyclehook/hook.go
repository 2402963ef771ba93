// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
)

// hook is a hook of Cluster API that the server answers.
type hook struct {
	// name is the name in Cluster API's catalog.
	name string
	// handler is the name of the handler.
	handler string
	// since is the release series of Cluster API that added the hook; earlier ones reject servers with unknown hooks.
	since capicontract.Series
}

// hooks are the blocking hooks before an operation that needs the providers. BeforeClusterDelete is missing: deletions
// are not delayed. The hooks before the steps of an upgrade interrupt upgrades that began before the
// rollout.
var hooks = []hook{
	{name: "BeforeClusterCreate", handler: "before-cluster-create"},
	{name: "BeforeClusterUpgrade", handler: "before-cluster-upgrade"},
	{name: "BeforeControlPlaneUpgrade", handler: "before-control-plane-upgrade", since: capicontract.Series{Major: 1, Minor: 12}},
	{name: "BeforeWorkersUpgrade", handler: "before-workers-upgrade", since: capicontract.Series{Major: 1, Minor: 12}},
}

// discovery is the hook that every server implements.
const discovery = "Discovery"

// path returns the path of the requests of a hook. Discovery has no handler.
func path(hook, handler string) string {
	group := hooksv1.GroupVersion
	return catalog.GVHToPath(catalog.GroupVersionHook{Group: group.Group, Version: group.Version, Hook: hook}, handler)
}

// timeoutSeconds is the time that Cluster API waits for an answer.
const timeoutSeconds = 5

// discovered returns the handlers for a release series of Cluster API.
func discovered(series capicontract.Series) []hooksv1.ExtensionHandler {
	var handlers []hooksv1.ExtensionHandler
	for _, h := range hooks {
		if h.since.Compare(series) > 0 {
			continue
		}
		handlers = append(handlers, hooksv1.ExtensionHandler{
			Name:           h.handler,
			RequestHook:    hooksv1.GroupVersionHook{APIVersion: hooksv1.GroupVersion.String(), Hook: h.name},
			TimeoutSeconds: new(int32(timeoutSeconds)),
			FailurePolicy:  new(hooksv1.FailurePolicyIgnore),
		})
	}
	return handlers
}

// coreSeries returns the oldest release series of Cluster API's core provider in the versions of a ClusterAPI object;
// zero if a version is unknown. During an upgrade of the provider, the old one can still run.
func coreSeries(cluster *v1alpha1.ClusterAPI) capicontract.Series {
	var oldest *capicontract.Series
	for _, version := range cluster.Status.Versions {
		for _, component := range version.Components {
			if component.Type != string(extractor.Core) {
				continue
			}
			series, _ := capicontract.SeriesOf(component.Version)
			if oldest == nil || series.Compare(*oldest) < 0 {
				oldest = &series
			}
		}
	}
	if oldest == nil {
		return capicontract.Series{}
	}
	return *oldest
}
