// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/install/status"
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

// ReferenceError reports a Secret that the settings refer to and that cannot be used.
type ReferenceError struct {
	Namespace, Name string
	// Problem describes what is missing, such as "not found".
	Problem string
}

func (e *ReferenceError) Error() string {
	return fmt.Sprintf("spec.components refers to Secret %s/%s: %s", e.Namespace, e.Name, e.Problem)
}

// settings returns the settings in a spec for bundles, with the values of Secrets that they refer to. former are the values in the desired version.
func (c clusterInputs) settings(spec v1alpha1.ClusterAPISpec, bundles []extractor.Bundle, former setting.Secrets, namespace string) (setting.Settings, error) {
	settings := setting.Of(spec)
	for _, bundle := range bundles {
		settings.For(bundle.Metadata.ProviderName).Expand(bundle.Manifests, func(secret string) iter.Seq[string] { return maps.Keys(c.secrets[secret].Data) })
	}
	values, err := secretValues(namespace, settings.SecretKeys(), c.secrets)
	if err != nil || len(values) == 0 {
		return settings, err
	}
	settings.Secrets = setting.Secrets{Salt: former.Salt, Values: values}
	if len(former.Salt) == 0 {
		settings.Secrets.Salt = setting.NewSalt()
	}
	return settings, nil
}

// secretValues returns the values of keys of Secrets by placeholder. All missing values are joined *ReferenceErrors.
func secretValues(namespace string, keys []v1alpha1.SecretKeyReference, secrets map[string]*corev1.Secret) (map[string]string, error) {
	values, errs := map[string]string{}, []error(nil)
	for _, key := range keys {
		secret := secrets[key.Name]
		value, found := secret.Data[key.Key]
		switch {
		case secret.Name == "":
			errs = append(errs, &ReferenceError{namespace, key.Name, "not found"})
		case key.Key == "": // of variablesFrom
		case !found:
			errs = append(errs, &ReferenceError{namespace, key.Name, fmt.Sprintf("key %q not found", key.Key)})
		case !utf8.Valid(value):
			errs = append(errs, &ReferenceError{namespace, key.Name, fmt.Sprintf("the value of key %q is not a text in UTF-8", key.Key)})
		default:
			values[setting.Placeholder(key)] = string(value)
		}
	}
	return values, errors.Join(errs...)
}

// platforms returns the platform of an OpenShift cluster for a release. The outcome is AsExpected, or the reason why nothing is installed.
// A gate that the release does not know is not enabled. Without a FeatureGate object, which OpenShift always has, all gates are enabled.
func (c clusterInputs) platforms(release string, cluster *v1alpha1.ClusterAPI) (operand.Platforms, status.Outcome) {
	found := c.infrastructure.Status.PlatformStatus
	if found == nil || found.Type == "" {
		return nil, status.Outcome{Reason: reason.PlatformUnknown, Message: "waiting for the platform of the cluster in Infrastructure " + configName}
	}
	platform := string(found.Type)
	at := slices.IndexFunc(c.gates.Status.FeatureGates, func(details configv1.FeatureGateDetails) bool { return details.Version == release })
	if c.gates.Name != "" && at < 0 {
		return nil, status.Outcome{Reason: reason.PlatformUnknown, Message: "waiting: FeatureGate " + configName + " does not list the feature gates of release " + release}
	}
	err := operand.CheckSupport(platform, func(gate string) bool {
		return at < 0 || slices.ContainsFunc(c.gates.Status.FeatureGates[at].Enabled, func(known configv1.FeatureGateAttributes) bool { return string(known.Name) == gate })
	})
	if err != nil {
		return nil, unsupported(err, cluster)
	}
	return operand.Platforms{platform}, status.Outcome{Reason: reason.AsExpected}
}

// unsupported returns the outcome on a platform without Cluster API. The release is complete there, and an installed
// version stays.
func unsupported(err error, cluster *v1alpha1.ClusterAPI) status.Outcome {
	message := err.Error()
	if cluster.Status.CurrentVersion != "" {
		message += "; version " + cluster.Status.CurrentVersion + " stays installed"
	}
	return status.Outcome{Reason: reason.UnsupportedPlatform, Message: message, ReleaseInstalled: true}
}

// record writes the inputs to the status. A client that has changed an input compares it with the status, to learn whether the rest of the
// status considers the change. An input that cannot be read is missing: the outcome of the reconcile has the error.
func (r *Reconciler) record(s *v1alpha1.ClusterAPIStatus, files releaseFiles, in clusterInputs) {
	if files.images != nil {
		s.ObservedRelease = &v1alpha1.ObservedRelease{
			Version: files.version, ImagesDigest: v1alpha1.Digest(digest.FromBytes(files.images)), Platform: strings.Join(r.Platforms, ","),
		}
	}
	s.ObservedInputs, s.ObservedBy = slices.Clone(in.seen), r.Identity
}

// recordVerdicts records the verdicts of the signature policies on the images of the desired and the current version. A
// verdict that was not reached in this reconcile, because of another error, replaces none.
func (r *Reconciler) recordVerdicts(ctx context.Context, outcome status.Outcome, s *v1alpha1.ClusterAPIStatus) {
	if r.Verdict == nil {
		return
	}
	var verdicts []v1alpha1.SignatureVerdict
	for _, image := range imagesInUse(s) {
		verdict := r.Verdict(ctx, string(image))
		before := slices.IndexFunc(s.SignatureVerdicts, func(v v1alpha1.SignatureVerdict) bool { return v.Image == image })
		if verdict.Verdict == v1alpha1.VerdictUndecided && before >= 0 && outcome.Reason != reason.ImageUntrusted {
			verdict = s.SignatureVerdicts[before]
		}
		verdicts = append(verdicts, verdict)
	}
	s.SignatureVerdicts = verdicts
}

// imagesInUse returns the images of the desired and the current version, sorted.
func imagesInUse(s *v1alpha1.ClusterAPIStatus) (images []v1alpha1.ImageReference) {
	for _, name := range []string{s.DesiredVersion, s.CurrentVersion} {
		version := s.Version(name)
		if version == nil {
			continue
		}
		for _, component := range version.Components {
			if component.Image != "" {
				images = append(images, component.Image)
			}
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}
