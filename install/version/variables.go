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
)

// configName is the name that OpenShift's configuration objects have.
const configName = "cluster"

// proxyVariables are the variables that tell programs of a proxy.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}

// variables are the values that manifests can ask for: those of the cluster's TLS
// profile and of its proxy, and those that the program was given, which go before them.
// Where the cluster has no Proxy object, the program's own environment tells.
func (r *Reconciler) variables(ctx context.Context) (map[string]string, error) {
	server := &configv1.APIServer{}
	if err := r.config(ctx, server); err != nil {
		return nil, err
	}
	values := tlsVariables(server.Spec.TLSSecurityProfile)
	for _, name := range proxyVariables {
		values[name] = os.Getenv(name)
	}
	proxy := &configv1.Proxy{}
	if err := r.config(ctx, proxy); err != nil {
		return nil, err
	}
	if proxy.Name != "" {
		values["HTTP_PROXY"], values["HTTPS_PROXY"], values["NO_PROXY"] = proxy.Status.HTTPProxy, proxy.Status.HTTPSProxy, proxy.Status.NoProxy
	}
	maps.Copy(values, r.Variables)
	return values, nil
}

// config reads one of OpenShift's configuration objects. It leaves the object
// empty, without a name, where there is none or its API does not exist.
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
