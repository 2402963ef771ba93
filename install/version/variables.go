// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// configName is the name of OpenShift's configuration objects.
const configName = "cluster"

// clusterInputs are the objects of the cluster that determine a version, as a reconcile has read them, each once. A configuration object without
// a name does not exist.
type clusterInputs struct {
	server         configv1.APIServer
	gates          configv1.FeatureGate
	infrastructure configv1.Infrastructure
	proxy          configv1.Proxy
	// secrets are the Secrets that the settings refer to, by name.
	secrets map[string]*corev1.Secret
	// seen are the objects with their resource versions, also the objects that do not exist: they can be created.
	seen []v1alpha1.ObservedInput
	// err are the errors of reading objects, which are missing then.
	err error
}

// readCluster reads the inputs from the cache.
func (r *Reconciler) readCluster(ctx context.Context, spec v1alpha1.ClusterAPISpec) clusterInputs {
	in := clusterInputs{secrets: map[string]*corev1.Secret{}}
	read := func(input v1alpha1.ObservedInput, object client.Object) {
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: input.Namespace, Name: input.Name}, object)
		if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			in.err = errors.Join(in.err, fmt.Errorf("reading %s %q: %w", input.Kind, strings.TrimPrefix(input.Namespace+"/"+input.Name, "/"), err))
			return
		}
		if err != nil {
			object.SetName("")
		}
		input.ResourceVersion = object.GetResourceVersion()
		in.seen = append(in.seen, input)
	}
	for _, input := range setting.Of(spec).References(r.Namespaces.Operator) {
		secret := &corev1.Secret{}
		read(input, secret)
		in.secrets[input.Name] = secret
	}
	secrets := len(in.seen)
	for _, known := range []struct {
		kind   string
		object client.Object
	}{{"APIServer", &in.server}, {"FeatureGate", &in.gates}, {"Infrastructure", &in.infrastructure}, {"Proxy", &in.proxy}} {
		read(v1alpha1.ObservedInput{Group: configv1.GroupName, Kind: known.kind, Name: configName}, known.object)
	}
	if len(r.Platforms) > 0 { // the cluster is not OpenShift
		in.seen = in.seen[:secrets]
	}
	return in
}

// variables returns the values of variables in manifests: the values that every cluster has, and others. The
// latter take precedence. Without a Proxy object, the program's environment sets the proxy.
func (c clusterInputs) variables(others map[string]string) map[string]string {
	proxy := map[string]string{"HTTP_PROXY": c.proxy.Status.HTTPProxy, "HTTPS_PROXY": c.proxy.Status.HTTPSProxy, "NO_PROXY": c.proxy.Status.NoProxy}
	if c.proxy.Name == "" {
		proxy = map[string]string{"HTTP_PROXY": os.Getenv("HTTP_PROXY"), "HTTPS_PROXY": os.Getenv("HTTPS_PROXY"), "NO_PROXY": os.Getenv("NO_PROXY")}
	}
	values := variable.Values(map[variable.Source]map[string]string{
		variable.TLSProfile: tlsprofile.Of(c.server.Spec.TLSSecurityProfile).Variables(),
		variable.Proxy:      proxy,
	})
	maps.Copy(values, others)
	return values
}
