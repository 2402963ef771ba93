// SPDX-License-Identifier: Apache-2.0

package administer

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
)

// send sends patches to the API server of a configuration. With dryRun the API server checks them and stores nothing. Errors
// are of type *installed.AccessError.
func send(ctx context.Context, config *rest.Config, patches []change, dryRun bool) error {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return &installed.AccessError{Subject: "API server " + config.Host, Err: err, Permanent: true}
	}
	options := metav1.PatchOptions{FieldManager: "capi-manifests"}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	for _, patch := range patches {
		if _, err := objects.Resource(patch.Resource).Namespace(patch.Namespace).Patch(ctx, patch.Name, types.MergePatchType, patch.body(), options); err != nil {
			return failed(config.Host, patch, err)
		}
	}
	return nil
}

// failed explains the error of a patch.
func failed(server string, patch change, err error) *installed.AccessError {
	answer := apierrors.APIStatus(nil)
	rejected := &installed.AccessError{
		Subject: "API server " + server, Permanent: errors.As(err, &answer), Err: fmt.Errorf("patching %s %s: %w", patch.Resource.GroupResource(), patch.Name, err),
	}
	switch {
	case apierrors.IsForbidden(err):
		rejected.NextStep = "this command needs the verb patch on " + patch.Resource.GroupResource().String()
	case apierrors.IsConflict(err):
		rejected.NextStep = "another user has changed the object at the same time; run the command again"
	case apierrors.IsNotFound(err):
		rejected.NextStep = "the installer creates the object at its first start; capi-manifests status shows whether it runs"
	}
	return rejected
}
