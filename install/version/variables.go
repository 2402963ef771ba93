// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"fmt"
	"maps"
	"os"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/tlsprofile"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// configName is the name of OpenShift's configuration objects.
const configName = "cluster"

// variables returns the values of variables in manifests: the ones that every cluster has, and r.Variables. The
// latter take precedence.
func (r *Reconciler) variables(ctx context.Context) (map[string]string, error) {
	server := &configv1.APIServer{}
	if err := r.config(ctx, server); err != nil {
		return nil, err
	}
	proxy, err := r.proxy(ctx)
	if err != nil {
		return nil, err
	}
	values := variable.Values(map[variable.Source]map[string]string{
		variable.TLSProfile: tlsprofile.Of(server.Spec.TLSSecurityProfile).Variables(),
		variable.Proxy:      proxy,
	})
	maps.Copy(values, r.Variables)
	return values, nil
}

// proxy returns the settings of the cluster's proxy; without a Proxy object, the program's environment sets them.
func (r *Reconciler) proxy(ctx context.Context) (map[string]string, error) {
	proxy := &configv1.Proxy{}
	if err := r.config(ctx, proxy); err != nil {
		return nil, err
	}
	if proxy.Name == "" {
		return map[string]string{"HTTP_PROXY": os.Getenv("HTTP_PROXY"), "HTTPS_PROXY": os.Getenv("HTTPS_PROXY"), "NO_PROXY": os.Getenv("NO_PROXY")}, nil
	}
	return map[string]string{"HTTP_PROXY": proxy.Status.HTTPProxy, "HTTPS_PROXY": proxy.Status.HTTPSProxy, "NO_PROXY": proxy.Status.NoProxy}, nil
}

// config reads one of OpenShift's configuration objects. It leaves the object empty,
// without a name, if the object or its API does not exist.
func (r *Reconciler) config(ctx context.Context, object client.Object) error {
	err := r.Client.Get(ctx, client.ObjectKey{Name: configName}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		object.SetName("")
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %T %q: %w", object, configName, err)
	}
	return nil
}
