// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/object"
)

// describe names an object: "Deployment openshift-cluster-api/capi-controller-manager".
func describe(obj client.Object) string { return object.Describe(obj) }

// describeRef names an object in the same form as describe.
func describeRef(ref types.ObjectRef) string {
	return object.Identity{GroupKind: ref.GroupKind(), Namespace: ref.Namespace, Name: ref.Name}.String()
}
