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

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// configName is the name of OpenShift's configuration objects.
const configName = "cluster"

// configuration is OpenShift's configuration of the cluster.
type configuration struct{ reader client.Reader }

// variables returns the values of variables in manifests: the ones that every cluster has, and others. The
// latter take precedence.
func (c configuration) variables(ctx context.Context, others map[string]string) (map[string]string, error) {
	server := &configv1.APIServer{}
	if err := c.read(ctx, server); err != nil {
		return nil, err
	}
	proxy, err := c.proxy(ctx)
	if err != nil {
		return nil, err
	}
	values := variable.Values(map[variable.Source]map[string]string{
		variable.TLSProfile: tlsprofile.Of(server.Spec.TLSSecurityProfile).Variables(),
		variable.Proxy:      proxy,
	})
	maps.Copy(values, others)
	return values, nil
}

// proxy returns the settings of the cluster's proxy; without a Proxy object, the program's environment sets them.
func (c configuration) proxy(ctx context.Context) (map[string]string, error) {
	proxy := &configv1.Proxy{}
	if err := c.read(ctx, proxy); err != nil {
		return nil, err
	}
	if proxy.Name == "" {
		return map[string]string{"HTTP_PROXY": os.Getenv("HTTP_PROXY"), "HTTPS_PROXY": os.Getenv("HTTPS_PROXY"), "NO_PROXY": os.Getenv("NO_PROXY")}, nil
	}
	return map[string]string{"HTTP_PROXY": proxy.Status.HTTPProxy, "HTTPS_PROXY": proxy.Status.HTTPSProxy, "NO_PROXY": proxy.Status.NoProxy}, nil
}

// read reads one of OpenShift's configuration objects. It leaves the object empty,
// without a name, if the object or its API does not exist.
func (c configuration) read(ctx context.Context, object client.Object) error {
	err := c.reader.Get(ctx, client.ObjectKey{Name: configName}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		object.SetName("")
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %T %q: %w", object, configName, err)
	}
	return nil
}

// platform returns the platform of the cluster; empty while it is unknown.
func (c configuration) platform(ctx context.Context) (string, error) {
	infrastructure := &configv1.Infrastructure{}
	if err := c.read(ctx, infrastructure); err != nil || infrastructure.Status.PlatformStatus == nil {
		return "", err
	}
	return string(infrastructure.Status.PlatformStatus.Type), nil
}

// observe returns the configuration objects that determine a version.
func (c configuration) observe(ctx context.Context) (seen []v1alpha1.ObservedInput) {
	for _, known := range []struct {
		kind   string
		object client.Object
	}{{"APIServer", &configv1.APIServer{}}, {"FeatureGate", &configv1.FeatureGate{}}, {"Infrastructure", &configv1.Infrastructure{}}, {"Proxy", &configv1.Proxy{}}} {
		if c.read(ctx, known.object) == nil { // also without the object: it can be created
			seen = append(seen, v1alpha1.ObservedInput{Group: configv1.GroupName, Kind: known.kind, Name: configName, ResourceVersion: known.object.GetResourceVersion()})
		}
	}
	return seen
}
