// SPDX-License-Identifier: Apache-2.0

package officialapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
)

var digest = "sha256:" + strings.Repeat("a", 64)

func crd(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	o.SetName(name)
	return o
}

// stored returns the same content for every version: two CRDs and a variable.
func stored(string) (operand.Set, error) {
	return operand.Set{
		Variables: map[string]string{"TLS_MIN_VERSION": "VersionTLS12", "not-a-key": "x"},
		Operands:  []operand.Operand{{Objects: []*unstructured.Unstructured{crd("machines.cluster.x-k8s.io"), crd("clusters.cluster.x-k8s.io")}}},
	}, nil
}

func version(name string, number int64, unmanaged ...string) v1alpha1.Version {
	return v1alpha1.Version{
		Name: name, Revision: number, ContentID: v1alpha1.Digest(digest), UnmanagedCRDs: unmanaged,
		Components: []v1alpha1.Component{
			{Name: "cluster-api", Image: v1alpha1.ImageReference("quay.io/a/b:v1@" + digest)},
			{Name: "aws.example", Image: v1alpha1.ImageReference("quay.io:5000/a/b_c@" + digest)},
			{Name: "transported", ConfigMaps: []string{"a-00"}},
		},
	}
}

// clusterAPI returns an object whose desired version is the last one.
func clusterAPI(current string, versions ...v1alpha1.Version) *v1alpha1.ClusterAPI {
	return &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{
		CurrentVersion: current, DesiredVersion: versions[len(versions)-1].Name, Versions: versions,
	}}
}

func entry(name string, number int64) operatorv1alpha1.ClusterAPIInstallerRevision {
	return operatorv1alpha1.ClusterAPIInstallerRevision{Name: operatorv1alpha1.RevisionName(name), Revision: number, ContentID: "theirs"}
}

func TestStatus_Revision(t *testing.T) {
	got, err := Status(&operatorv1alpha1.ClusterAPI{}, clusterAPI("", version("4.22.0-1", 1, "machines.cluster.x-k8s.io", "others.example.com")), stored)
	if err != nil {
		t.Fatal(err)
	}
	image := func(name, reference string) operatorv1alpha1.ClusterAPIInstallerComponent {
		return operatorv1alpha1.ClusterAPIInstallerComponent{Name: name, ClusterAPIInstallerComponentSource: operatorv1alpha1.ClusterAPIInstallerComponentSource{
			Type: "Image", Image: operatorv1alpha1.ClusterAPIInstallerComponentImage{Ref: operatorv1alpha1.ImageDigestFormat(reference), Profile: "default"},
		}}
	}
	want := operatorv1alpha1.ClusterAPIInstallerRevision{
		Name: "4.22.0-1", Revision: 1, ContentID: digest,
		UnmanagedCustomResourceDefinitions: []string{"machines.cluster.x-k8s.io"},
		ManifestSubstitutions:              []operatorv1alpha1.ClusterAPIInstallerRevisionManifestSubstitution{{Key: "TLS_MIN_VERSION", Value: new("VersionTLS12")}},
		Components:                         []operatorv1alpha1.ClusterAPIInstallerComponent{image("cluster-api", "quay.io/a/b@"+digest), image("aws-example", "quay.io:5000/a/b_c@"+digest)},
	}
	if diff := cmp.Diff([]operatorv1alpha1.ClusterAPIInstallerRevision{want}, got.Revisions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStatus_RevisionsAndGeneration(t *testing.T) {
	for name, test := range map[string]struct {
		before    operatorv1alpha1.ClusterAPIStatus
		unmanaged []string // of the official object, whose generation is 4
		cluster   *v1alpha1.ClusterAPI
		want      string // current desired observed: revisions
	}{
		"a first version":              {cluster: clusterAPI("", version("r-1", 1)), want: " r-1 4: [r-1]"},
		"an installed version":         {cluster: clusterAPI("r-1", version("r-1", 1)), want: "r-1 r-1 4: [r-1]"},
		"a rollout":                    {cluster: clusterAPI("r-1", version("r-1", 1), version("r-2", 2)), want: "r-1 r-2 4: [r-1 r-2]"},
		"an exclusion in force":        {unmanaged: []string{"a.b.c"}, cluster: clusterAPI("r-1", version("r-1", 1, "a.b.c")), want: "r-1 r-1 4: [r-1]"},
		"an exclusion not yet decided": {unmanaged: []string{"a.b.c"}, cluster: clusterAPI("r-1", version("r-1", 1)), want: "r-1 r-1 0: [r-1]"},
		"an exclusion of the older version only": {
			unmanaged: []string{"a.b.c"}, cluster: clusterAPI("r-1", version("r-1", 1, "a.b.c"), version("r-2", 2)), want: "r-1 r-2 0: [r-1 r-2]",
		},
		"a generation never decreases": {
			before:    operatorv1alpha1.ClusterAPIStatus{ObservedRevisionGeneration: 3, Revisions: []operatorv1alpha1.ClusterAPIInstallerRevision{entry("r-1", 1)}},
			unmanaged: []string{"a.b.c"}, cluster: clusterAPI("r-1", version("r-1", 1)), want: "r-1 r-1 3: [r-1]",
		},
		"revisions of cluster-capi-operator stay during the first rollout": {
			before:  operatorv1alpha1.ClusterAPIStatus{CurrentRevision: "p-6", DesiredRevision: "p-7", Revisions: []operatorv1alpha1.ClusterAPIInstallerRevision{entry("p-6", 6), entry("p-7", 7)}},
			cluster: clusterAPI("", version("r-8", 8)), want: "p-6 r-8 4: [p-6 p-7 r-8]",
		},
		"revisions of cluster-capi-operator are removed after the first rollout": {
			before:  operatorv1alpha1.ClusterAPIStatus{CurrentRevision: "p-6", DesiredRevision: "r-8", Revisions: []operatorv1alpha1.ClusterAPIInstallerRevision{entry("p-6", 6), entry("p-7", 7), entry("r-8", 8)}},
			cluster: clusterAPI("r-8", version("r-8", 8)), want: "r-8 r-8 4: [r-8]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			official := &operatorv1alpha1.ClusterAPI{Spec: &operatorv1alpha1.ClusterAPISpec{UnmanagedCustomResourceDefinitions: test.unmanaged}, Status: test.before}
			official.Generation = 4
			status, err := Status(official, test.cluster, stored)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, revision := range status.Revisions {
				names = append(names, string(revision.Name))
			}
			got := fmt.Sprintf("%s %s %d: %v", status.CurrentRevision, status.DesiredRevision, status.ObservedRevisionGeneration, names)
			if got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// TestStatus_EntriesNeverChange: the official API rejects a changed entry.
func TestStatus_EntriesNeverChange(t *testing.T) {
	official := &operatorv1alpha1.ClusterAPI{Status: operatorv1alpha1.ClusterAPIStatus{Revisions: []operatorv1alpha1.ClusterAPIInstallerRevision{entry("r-1", 1)}}}
	unread := func(string) (operand.Set, error) { return operand.Set{}, errors.New("a known version was read again") }
	status, err := Status(official, clusterAPI("r-1", version("r-1", 1)), unread)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(official.Status.Revisions, status.Revisions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStatus_Limits(t *testing.T) {
	official := &operatorv1alpha1.ClusterAPI{}
	for i := range int64(16) {
		official.Status.Revisions = append(official.Status.Revisions, entry(fmt.Sprintf("p-%d", i+1), i+1))
	}
	newest := version("r-17", 17)
	for range 40 {
		newest.Components = append(newest.Components, newest.Components[0])
	}
	status, err := Status(official, clusterAPI("", newest), stored)
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Revisions) != 16 || status.DesiredRevision != "r-17" || len(status.Revisions[15].Components) != 32 {
		t.Errorf("%d revisions, desired %s, %d components", len(status.Revisions), status.DesiredRevision, len(status.Revisions[15].Components))
	}
}

func TestStatus_UninstalledHasNoCurrent(t *testing.T) {
	before := operatorv1alpha1.ClusterAPIStatus{CurrentRevision: "r-1", DesiredRevision: "r-1", ObservedRevisionGeneration: 2, Revisions: []operatorv1alpha1.ClusterAPIInstallerRevision{entry("r-1", 1)}}
	status, err := Status(&operatorv1alpha1.ClusterAPI{Status: before}, &v1alpha1.ClusterAPI{}, stored)
	want := before
	want.CurrentRevision = ""
	if diff := cmp.Diff(want, status); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestStatus_LimitsOfEntries(t *testing.T) {
	unmanaged, set := []string{"a.example.com"}, operand.Set{Variables: map[string]string{"A_LONG": strings.Repeat("x", 4097), "A_LONGEST": strings.Repeat("x", 4096)}}
	for i := range 130 {
		name := fmt.Sprintf("kinds%03d.example.com", i)
		unmanaged = append(unmanaged, name)
		set.Operands = append(set.Operands, operand.Operand{Objects: []*unstructured.Unstructured{crd(name)}})
		set.Variables[fmt.Sprintf("V%03d", i)] = "x"
	}
	set.Operands = append(set.Operands, operand.Operand{Objects: []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": unmanaged[0]},
	}}}})
	large := version("r-1", 1, unmanaged...)
	large.Components = slices.Repeat(large.Components[:1], 33)
	got := revision(large, set)
	if count := len(got.Components); count != 32 {
		t.Errorf("%d components", count)
	}
	if count := len(got.UnmanagedCustomResourceDefinitions); count != 128 || got.UnmanagedCustomResourceDefinitions[0] != unmanaged[1] {
		t.Errorf("%d unmanaged CRDs", count)
	}
	if count := len(got.ManifestSubstitutions); count != 32 || got.ManifestSubstitutions[0].Key != "A_LONGEST" {
		t.Errorf("%d substitutions, the first is %s", count, got.ManifestSubstitutions[0].Key)
	}
}

func TestImageReference(t *testing.T) {
	long := "quay.io/" + strings.Repeat("a", 446-len("quay.io/")-len(digest))
	for reference, want := range map[string]string{
		"quay.io/a/b@" + digest:       "quay.io/a/b@" + digest,
		"quay.io/a/b:v1@" + digest:    "quay.io/a/b@" + digest,
		"quay.io:5000/a@" + digest:    "quay.io:5000/a@" + digest,
		"quay.io:5000/a:v1@" + digest: "quay.io:5000/a@" + digest,
		"[fd00::1]:5000/a@" + digest:  "[fd00::1]:5000/a@" + digest,
		"quay.io/a/b:v1":              "",
		"quay.io/a/B@" + digest:       "",
		"a@" + digest:                 "",
		long + "@" + digest:           long + "@" + digest,
		long + "a@" + digest:          "",
		"":                            "",
	} {
		if got := imageReference(reference); got != want {
			t.Errorf("%s: got %q, want %q", reference, got, want)
		}
	}
}
