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

	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
)

// configName is the name of OpenShift's configuration objects.
const configName = "cluster"

// variables returns the values of variables in manifests: the cluster's TLS profile
// and proxy, and r.Variables, which take precedence. Without a Proxy object, the proxy
// comes from the program's environment.
func (r *Reconciler) variables(ctx context.Context) (map[string]string, error) {
	server := &configv1.APIServer{}
	if err := r.config(ctx, server); err != nil {
		return nil, err
	}
	values := tlsprofile.Of(server.Spec.TLSSecurityProfile).Variables()
	for _, name := range operand.ProxyVariables() {
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
