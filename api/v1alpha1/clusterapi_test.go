// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

var digest = "sha256:" + strings.Repeat("ab", 32)

// newClient returns a client for an API server with the CRD.
func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(controlplane.Shared(t).Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	installCRD(t, c)
	return c
}

func installCRD(t *testing.T, c client.Client) {
	t.Helper()
	objects, err := manifests.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if !object.IsCRD(o) {
			continue
		}
		if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return c.List(ctx, &v1alpha1.ClusterAPIList{}) == nil, nil
	})
	if err != nil {
		t.Fatalf("the CRD is not served: %v", err)
	}
}

// create creates a ClusterAPI and deletes it when the test ends.
func create(t *testing.T, c client.Client, cluster *v1alpha1.ClusterAPI) {
	t.Helper()
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), cluster); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

func named(name string) *v1alpha1.ClusterAPI {
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Name = name
	return cluster
}

func version(revision int64) v1alpha1.Version {
	return v1alpha1.Version{
		Name: fmt.Sprintf("4.22.0-%d", revision), Revision: revision,
		ContentID: v1alpha1.Digest(digest), ManifestsDigest: v1alpha1.Digest(digest),
		UnmanagedCRDs: []string{"clusters.cluster.x-k8s.io"},
		Components: []v1alpha1.Component{{
			Name: "cluster-api", Type: "core", Version: "v1.14.2", ContentID: v1alpha1.Digest(digest),
			Image: v1alpha1.ImageReference("registry.example.com/openshift/capi@" + digest),
		}},
	}
}

// expectError fails the test unless err contains want, or is nil if want is
// empty.
func expectError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("rejected: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want an error with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("rejected with %q, want %q", err, want)
	}
}

func TestSpec_Validation(t *testing.T) {
	c := newClient(t)
	override := func(name string, images ...string) func(*v1alpha1.ClusterAPI) {
		return func(cluster *v1alpha1.ClusterAPI) {
			for _, image := range images {
				cluster.Spec.ImageOverrides = append(cluster.Spec.ImageOverrides, v1alpha1.ImageOverride{Name: name, Image: v1alpha1.ImageReference(image)})
			}
		}
	}
	unmanaged := func(names ...string) func(*v1alpha1.ClusterAPI) {
		return func(cluster *v1alpha1.ClusterAPI) { cluster.Spec.UnmanagedCRDs = names }
	}
	accepted := func(risk v1alpha1.Risk, release string) func(*v1alpha1.ClusterAPI) {
		return func(cluster *v1alpha1.ClusterAPI) {
			cluster.Spec.AcceptedRisks = []v1alpha1.AcceptedRisk{{Name: risk, Release: release}}
		}
	}
	settings := func(components ...v1alpha1.ComponentSettings) func(*v1alpha1.ClusterAPI) {
		return func(cluster *v1alpha1.ClusterAPI) { cluster.Spec.Components = components }
	}
	for _, test := range []struct {
		name string
		edit func(*v1alpha1.ClusterAPI)
		want string
	}{
		{"an empty spec", func(*v1alpha1.ClusterAPI) {}, ""},
		{"another name", func(c *v1alpha1.ClusterAPI) { c.Name = "mine" }, "ClusterAPI is a singleton: metadata.name must be 'cluster'"},
		{"paused", func(c *v1alpha1.ClusterAPI) { c.Spec.InstallerMode = v1alpha1.Paused }, ""},
		{"an unknown mode", func(c *v1alpha1.ClusterAPI) { c.Spec.InstallerMode = "Off" }, `supported values: "Managed", "Paused"`},
		{"an unmanaged CRD", unmanaged("clusters.cluster.x-k8s.io"), ""},
		{"an unmanaged CRD without a group", unmanaged("clusters"), "must be the name of a CRD: <plural>.<group>"},
		{"an unmanaged CRD twice", unmanaged("clusters.cluster.x-k8s.io", "clusters.cluster.x-k8s.io"), "Duplicate value"},
		{"an accepted risk", accepted(v1alpha1.BreakingCRDChange, "4.22.0"), ""},
		{"an accepted risk without a release", accepted(v1alpha1.BreakingCRDChange, ""), "spec.acceptedRisks[0].release"},
		{"an unknown risk", accepted("Everything", "4.22.0"), `supported values: "BreakingCRDChange"`},
		{"an override by digest", override("aws", "quay.io/me/capa@"+digest), ""},
		{"an override from a registry with a port", override("aws", "localhost:5000/capa@"+digest), ""},
		{"an override from an IPv6 registry", override("aws", "[::1]:5000/capa@"+digest), ""},
		{"an override by tag", override("aws", "quay.io/me/capa:latest"), "must be an image reference by digest"},
		{"an override with half a digest", override("aws", "quay.io/me/capa@sha256:abcd"), "must be an image reference by digest"},
		{"an override twice", override("aws", "quay.io/me/capa@"+digest, "quay.io/me/capa@"+digest), "Duplicate value"},
		{"an override without a name", override("", "quay.io/me/capa@"+digest), "spec.imageOverrides[0].name"},
		{"settings", settings(v1alpha1.ComponentSettings{Name: "aws", Variables: []v1alpha1.Variable{{Name: "A", Value: new("")}, {Name: "B", ValueFrom: &v1alpha1.VariableSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "aws", Key: "token"}}}}, Deployment: &v1alpha1.DeploymentSettings{Replicas: new(int32(2)), Args: []string{"--v=4"}}}), ""},
		{"settings of a component twice", settings(v1alpha1.ComponentSettings{Name: "aws"}, v1alpha1.ComponentSettings{Name: "aws"}), "Duplicate value"},
		{"a variable twice", settings(v1alpha1.ComponentSettings{Name: "aws", Variables: []v1alpha1.Variable{{Name: "A", Value: new("")}, {Name: "A", Value: new("")}}}), "Duplicate value"},
		{"a variable without a value", settings(v1alpha1.ComponentSettings{Name: "aws", Variables: []v1alpha1.Variable{{Name: "A"}}}), "exactly one of value and valueFrom must be set"},
		{"a key that is none", settings(v1alpha1.ComponentSettings{Name: "aws", Variables: []v1alpha1.Variable{{Name: "A", ValueFrom: &v1alpha1.VariableSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "aws", Key: "a b"}}}}}), "must be a key of a Secret"},
		{"all keys of a Secret", settings(v1alpha1.ComponentSettings{Name: "aws", VariablesFrom: &v1alpha1.VariablesSource{SecretRef: v1alpha1.SecretReference{Name: "aws"}}}), ""},
		{"all keys of no Secret", settings(v1alpha1.ComponentSettings{Name: "aws", VariablesFrom: &v1alpha1.VariablesSource{SecretRef: v1alpha1.SecretReference{Name: "A b"}}}), "must be the name of a Secret"},
		{"a variable with the syntax of manifests", settings(v1alpha1.ComponentSettings{Name: "aws", Variables: []v1alpha1.Variable{{Name: "${A}", Value: new("")}}}), "must be the name of a variable"},
		{"an argument that is no flag", settings(v1alpha1.ComponentSettings{Name: "aws", Deployment: &v1alpha1.DeploymentSettings{Args: []string{"start"}}}), "must be a flag"},
		{"a negative number of replicas", settings(v1alpha1.ComponentSettings{Name: "aws", Deployment: &v1alpha1.DeploymentSettings{Replicas: new(int32(-1))}}), "should be greater than or equal to 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster := named(v1alpha1.ClusterAPIName)
			test.edit(cluster)
			expectError(t, c.Create(t.Context(), cluster, client.DryRunAll), test.want)
		})
	}
}

func TestInstallerMode_DefaultsToManaged(t *testing.T) {
	c := newClient(t)
	cluster := named(v1alpha1.ClusterAPIName)
	create(t, c, cluster)
	if cluster.Spec.InstallerMode != v1alpha1.Managed {
		t.Errorf("the mode is %q", cluster.Spec.InstallerMode)
	}
}

// TestStatus_Validation updates a status with two versions: the first is current,
// the second desired.
func TestStatus_Validation(t *testing.T) {
	c := newClient(t)
	type status = v1alpha1.ClusterAPIStatus
	for _, test := range []struct {
		name string
		edit func(*status)
		want string
	}{
		{"the desired version becomes current", func(s *status) { s.CurrentVersion = s.DesiredVersion }, ""},
		{"the older version is removed", func(s *status) { s.CurrentVersion, s.Versions = s.DesiredVersion, s.Versions[1:] }, ""},
		{"a newer version is added", func(s *status) { s.Versions, s.DesiredVersion = append(s.Versions, version(7)), "4.22.0-7" }, ""},
		{"the current version has no entry", func(s *status) { s.CurrentVersion = "4.22.0-9" }, "currentVersion must name an entry of versions"},
		{"the desired version has no entry", func(s *status) { s.DesiredVersion = "4.22.0-9" }, "desiredVersion must name an entry of versions"},
		{"an older version is added", func(s *status) { s.Versions = append(s.Versions, version(2)) }, "the revision number of a new version must be higher than all others"},
		{"a number is used twice", func(s *status) {
			again := version(6)
			again.Name = "4.23.0-6"
			s.Versions = append(s.Versions, again)
		}, "revision numbers must be unique"},
		{"the newest version is removed", func(s *status) { s.DesiredVersion, s.Versions = s.CurrentVersion, s.Versions[:1] }, "the newest version cannot be removed"},
		{"all versions are removed", func(s *status) { *s = status{} }, "versions cannot be removed"},
		{"a version's content changes", func(s *status) { s.Versions[0].ContentID = v1alpha1.Digest("sha256:" + strings.Repeat("cd", 32)) }, "a version is immutable"},
		{"a version's components change", func(s *status) { s.Versions[0].Components[0].Version = "v2" }, "a version is immutable"},
		{"a version's unmanaged CRDs change", func(s *status) { s.Versions[0].UnmanagedCRDs = nil }, "unmanagedCRDs of a version is immutable"},
		{"a version is misnamed", func(s *status) {
			other := version(7)
			other.Name = "4.22.0-8"
			s.Versions = append(s.Versions, other)
		}, "the name of a version must be <release version>-<revision number>"},
		{"a version's name is invalid for a ConfigMap", func(s *status) {
			other := version(7)
			other.Name = "4.22_0-7"
			s.Versions = append(s.Versions, other)
		}, "must be a valid name of a ConfigMap"},
		{"a component has neither image nor ConfigMaps", func(s *status) { s.Versions = append(s.Versions, with(version(7), v1alpha1.Component{})) }, "exactly one of image and configMaps must be set"},
		{"a component has both", func(s *status) {
			s.Versions = append(s.Versions, with(version(7), v1alpha1.Component{Image: version(1).Components[0].Image, ConfigMaps: []string{"a"}}))
		}, "exactly one of image and configMaps must be set"},
		{"a component from ConfigMaps", func(s *status) {
			s.Versions = append(s.Versions, with(version(7), v1alpha1.Component{ConfigMaps: []string{"a-0", "a-1"}}))
		}, ""},
		{"a component with an image by tag", func(s *status) {
			s.Versions = append(s.Versions, with(version(7), v1alpha1.Component{Image: "quay.io/me/capi:v1"}))
		}, "must be an image reference by digest"},
		{"a component has an unknown type", func(s *status) {
			other := version(7)
			other.Components[0].Type = "network"
			s.Versions = append(s.Versions, other)
		}, "Unsupported value"},
		{"a version's phases progress", func(s *status) { s.Versions[0].Phases = []v1alpha1.Phase{phase(2, 1)} }, ""},
		{"a phase has more ready objects than objects", func(s *status) { s.Versions[0].Phases = []v1alpha1.Phase{phase(1, 2)} }, "ready must not exceed objects"},
		{"a phase waits for more than five objects", func(s *status) {
			waits := phase(6, 0)
			for i := range 6 {
				waits.WaitingFor = append(waits.WaitingFor, v1alpha1.Waiting{Object: fmt.Sprint(i), Since: waits.Since})
			}
			s.Versions[0].Phases = []v1alpha1.Phase{waits}
		}, "must have at most 5 items"},
		{"a phase is in an unknown state", func(s *status) {
			odd := phase(1, 1)
			odd.State = "Odd"
			s.Versions[0].Phases = []v1alpha1.Phase{odd}
		}, "Unsupported value"},
		{"an invalid digest", func(s *status) {
			other := version(7)
			other.ContentID = "abcd"
			s.Versions = append(s.Versions, other)
		}, "must be a SHA-256 digest: sha256:<64 hex digits>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster := named(v1alpha1.ClusterAPIName)
			create(t, c, cluster)
			cluster.Status = status{Versions: []v1alpha1.Version{version(5), version(6)}, CurrentVersion: "4.22.0-5", DesiredVersion: "4.22.0-6"}
			if err := c.Status().Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			test.edit(&cluster.Status)
			expectError(t, c.Status().Update(t.Context(), cluster), test.want)
		})
	}
}

func phase(objects, ready int32) v1alpha1.Phase {
	return v1alpha1.Phase{Name: "core", State: v1alpha1.PhaseProgressing, Since: metav1.Now(), Objects: objects, Ready: ready}
}

// with replaces the components of a version by one component with the source of
// another one.
func with(version v1alpha1.Version, source v1alpha1.Component) v1alpha1.Version {
	component := version.Components[0]
	component.Image, component.ConfigMaps = source.Image, source.ConfigMaps
	version.Components = []v1alpha1.Component{component}
	return version
}

func TestPrinterColumns_InKubectl(t *testing.T) {
	c := newClient(t)
	cluster := named(v1alpha1.ClusterAPIName)
	create(t, c, cluster)
	cluster.Status = v1alpha1.ClusterAPIStatus{Versions: []v1alpha1.Version{version(5)}, CurrentVersion: "4.22.0-5", DesiredVersion: "4.22.0-5", Message: "Cluster API is installed"}
	for _, kind := range []string{"Available", "Progressing", "Degraded"} {
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Tested"})
	}
	if err := c.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	out, err := controlplane.Shared(t).Kubectl(t.Context(), "get", "clusterapi")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if got, want := strings.Join(strings.Fields(lines[0]), " "), "NAME CURRENT DESIRED AVAILABLE PROGRESSING DEGRADED AGE MESSAGE"; got != want {
		t.Errorf("columns are %q, want %q", got, want)
	}
	if got := strings.Join(strings.Fields(lines[1]), " "); !strings.HasPrefix(got, "cluster 4.22.0-5 4.22.0-5 True True True ") || !strings.HasSuffix(got, "Cluster API is installed") {
		t.Errorf("the row is %q", lines[1])
	}
}
