// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/object"
)

// extensionConfigs is the CRD of ExtensionConfigs.
var extensionConfigs = object.Identity{GroupKind: object.CustomResourceDefinition, Name: "extensionconfigs.runtime.cluster.x-k8s.io"}

// runtimeSDK is the feature gate without which Cluster API calls no Runtime Extension.
const runtimeSDK = "RuntimeSDK"

// hooks adds a finding for each ExtensionConfig with handlers that the installed core provider calls, and the core provider of the release does not. A hook
// of which nothing is known counts as called. ExtensionConfigs that the release changes or removes are not considered, because their servers change with it, and neither are
// ExtensionConfigs that cannot be converted, because the release may repair the webhook.
func (j judged) hooks(ctx context.Context, cluster Cluster, r Release) judged {
	if object.IdentityOf(j.desired) != extensionConfigs {
		return j
	}
	crd, err := cluster.Read(ctx, j.desired)
	if err != nil || crd == nil {
		j.err = errors.Join(j.err, err)
		return j
	}
	configs, err := cluster.All(ctx, instanceKind(instance.ListKind(crd)))
	if err != nil && !apierrors.IsStoreReadError(err) && !apierrors.IsInternalError(err) {
		j.err = errors.Join(j.err, err)
	}
	changed, now := revision.ByIdentity(r.Phases), revision.ByIdentity(slices.Concat(r.Phases, r.Unchanged))
	for _, config := range configs {
		if id := object.IdentityOf(config); changed[id] != nil || r.InstalledObjects[id] != nil && now[id] == nil {
			continue
		}
		lost := map[string][]string{}
		for _, handler := range object.MapsAt(config.Object, "status", "handlers") {
			version, hook := object.TextAt(handler, "requestHook", "apiVersion"), object.TextAt(handler, "requestHook", "hook")
			if cause := uncalled(now, version, hook); cause != "" && uncalled(r.InstalledObjects, version, hook) == "" {
				lost[cause] = append(lost[cause], fmt.Sprintf("%s (%s of %s)", handler["name"], hook, version))
			}
		}
		for _, cause := range slices.Sorted(maps.Keys(lost)) {
			j.findings = append(j.findings, Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.UncalledRuntimeHook, Message: fmt.Sprintf(
				"%s: Cluster API would no longer call handlers %s: %s, or delete the ExtensionConfig", object.Describe(config), strings.Join(lost[cause], ", "), cause)})
		}
	}
	return j
}

// uncalled says why the core provider among objects does not call a hook, and what to do; empty if it may call the hook.
func uncalled(objects map[object.Identity]*unstructured.Unstructured, version, hook string) string {
	for _, gate := range setting.Gates(slices.Collect(maps.Values(objects))) {
		if enabled, err := strconv.ParseBool(gate.Default); gate.Name == runtimeSDK && err == nil && !enabled {
			return "feature gate RuntimeSDK of Deployment " + gate.Deployment + " is disabled; enable it in spec.components"
		}
	}
	crd := objects[extensionConfigs]
	if crd == nil {
		return ""
	}
	listed := strings.Fields(crd.GetAnnotations()[v1alpha1.RuntimeHooksAnnotation])
	if len(listed) == 0 || slices.Contains(listed, version) || slices.Contains(listed, version+"/"+hook) {
		return ""
	}
	return "annotation " + v1alpha1.RuntimeHooksAnnotation + " of its CRD does not list the hooks; register a server with listed hooks"
}
