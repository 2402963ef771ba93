// SPDX-License-Identifier: Apache-2.0

package version

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/object"
)

// first returns the first revision ConfigMap of a version.
func first(name, digest string) corev1.ConfigMap {
	return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1alpha1.RevisionLabel: name},
		Annotations: map[string]string{v1alpha1.ManifestsDigestAnnotation: digest},
	}}
}

func TestNextVersion(t *testing.T) {
	stored := revision.Stored{Digest: digest.FromString("objects")}
	same, other := stored.Digest.String(), digest.FromString("others").String()
	deleted := first("4.22.0-3", same)
	deleted.DeletionTimestamp = &metav1.Time{}
	continuation := first("4.22.0-3", same)
	continuation.Labels = map[string]string{v1alpha1.RevisionPartLabel: "4.22.0-3"}
	now := metav1.Now()
	deleted.DeletionTimestamp = &now
	foreign := func(name string) corev1.ConfigMap { return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	for name, test := range map[string]struct {
		versions, numbered []v1alpha1.Version
		existing           []corev1.ConfigMap
		want               string
	}{
		"the first version":                                          {want: "4.22.0-1"},
		"after the highest number, of any release":                   {versions: []v1alpha1.Version{{Name: "4.21.9-7", Revision: 7, ManifestsDigest: "x"}, {Name: "4.22.0-2", Revision: 2, ManifestsDigest: "x"}}, want: "4.22.0-8"},
		"a number of the official API is taken":                      {numbered: []v1alpha1.Version{{Name: "4.22.0-4", Revision: 4}}, want: "4.22.0-5"},
		"a ConfigMap with the same objects is used":                  {versions: []v1alpha1.Version{{Name: "4.22.0-2", Revision: 2, ManifestsDigest: "x"}}, existing: []corev1.ConfigMap{first("4.22.0-3", same)}, want: "4.22.0-3"},
		"the number of a ConfigMap with other objects is not reused": {existing: []corev1.ConfigMap{first("4.22.0-3", other)}, want: "4.22.0-4"},
		"the number of another release is not reused":                {existing: []corev1.ConfigMap{first("4.21.9-3", same)}, want: "4.22.0-4"},
		"the number of a deleted ConfigMap is not reused":            {existing: []corev1.ConfigMap{deleted}, want: "4.22.0-4"},
		"only the newest ConfigMap is reused":                        {versions: []v1alpha1.Version{{Name: "4.22.0-5", Revision: 5, ManifestsDigest: "x"}}, existing: []corev1.ConfigMap{first("4.22.0-3", same)}, want: "4.22.0-6"},
		"a continuation is not a version":                            {existing: []corev1.ConfigMap{continuation}, want: "4.22.0-1"},
		"a ConfigMap of a version in the status":                     {versions: []v1alpha1.Version{{Name: "4.22.0-3", Revision: 3, ManifestsDigest: "x"}}, existing: []corev1.ConfigMap{first("4.22.0-3", same)}, want: "4.22.0-4"},
		"names that other actors have taken":                         {existing: []corev1.ConfigMap{foreign("4.22.0-1"), foreign("4.22.0-2.1"), foreign("4.22.0-33")}, want: "4.22.0-3"},
		"a ConfigMap whose name is not a version's":                  {existing: []corev1.ConfigMap{first("settings", same)}, want: "4.22.0-1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, number, err := nextVersion("4.22.0", test.versions, test.numbered, stored, test.existing)
			if err != nil || got != test.want || fmt.Sprintf("4.22.0-%d", number) != got {
				t.Errorf("got %s, %d, %v, want %s", got, number, err, test.want)
			}
		})
	}
}

// The API server rejects a status with more than 16 versions, and the 16th is still allowed.
func TestAdd_LimitOfVersions(t *testing.T) {
	for before, want := range map[int]reason.Reason{15: reason.RollingOut, 16: reason.RetiringRevisions} {
		cluster := clusterAPI()
		for number := range before {
			name := fmt.Sprintf("4.21.0-%d", number+1)
			cluster.Status.Versions = append(cluster.Status.Versions, v1alpha1.Version{Name: name, Revision: int64(number + 1), ManifestsDigest: "x"})
			cluster.Status.CurrentVersion, cluster.Status.DesiredVersion = name, name
		}
		r := reconcilerWith(t, cluster)
		if got := r.add(t.Context(), "4.22.0", cluster.DeepCopy(), operand.Set{}, inputs{}, nil); got.Reason != want || got.Err != nil {
			t.Errorf("with %d versions: %s, error %v, want %s", before, got.Reason, got.Err, want)
		}
	}
}

func TestEvictable(t *testing.T) {
	busy := []v1alpha1.Phase{{Name: "cluster-api"}}
	version := func(number int64, phases []v1alpha1.Phase) v1alpha1.Version {
		return v1alpha1.Version{Name: fmt.Sprint("4.22.0-", number), Revision: number, Phases: phases}
	}
	for name, test := range map[string]struct {
		versions         []v1alpha1.Version
		current, desired string
		want             string
	}{
		"the oldest that was never complete": {[]v1alpha1.Version{version(1, busy), version(2, busy), version(3, busy), version(4, busy), version(5, busy)}, "4.22.0-2", "4.22.0-5", "4.22.0-3"},
		"that is not deleted yet":            {[]v1alpha1.Version{version(7, busy), version(8, busy), version(9, busy)}, "", "4.22.0-9", "4.22.0-8"},
		"rather one without objects":         {[]v1alpha1.Version{version(3, busy), version(4, nil), version(5, busy)}, "", "4.22.0-5", "4.22.0-4"},
		"none while all are deleted":         {[]v1alpha1.Version{version(7, busy), version(9, busy)}, "", "4.22.0-9", ""},
		"never one that was complete":        {[]v1alpha1.Version{version(1, busy), version(2, busy), version(3, busy)}, "4.22.0-2", "4.22.0-3", ""},
		"the oldest version without objects": {[]v1alpha1.Version{version(1, busy), version(2, nil), version(3, nil), version(4, busy)}, "4.22.0-1", "4.22.0-4", "4.22.0-2"},
		"never the current version":          {[]v1alpha1.Version{version(1, nil), version(3, busy)}, "4.22.0-1", "4.22.0-3", ""},
		"never the desired version":          {[]v1alpha1.Version{version(1, busy), version(3, nil)}, "4.22.0-1", "4.22.0-3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := v1alpha1.ClusterAPIStatus{Versions: test.versions, CurrentVersion: test.current, DesiredVersion: test.desired}
			if got := evictable(s, func(name string) bool { return name == "4.22.0-7" }); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestBundles_PendingAndDropped(t *testing.T) {
	component := v1alpha1.Component{Name: "aws", Type: "infrastructure", Source: "aws", ConfigMaps: []string{"aws-0", "aws-1"}}
	fromImage := component
	fromImage.ConfigMaps = nil
	bundle := extractor.Bundle{Metadata: extractor.Metadata{ProviderName: "aws", ProviderType: extractor.Infrastructure}}
	otherRelease := &configmap.OtherError{Bundle: "aws", Provider: "aws", Type: extractor.Infrastructure}
	for name, test := range map[string]struct {
		former           v1alpha1.Component
		bundles          []extractor.Bundle
		results          []extractor.Result
		pending, dropped bool
	}{
		"from ConfigMaps that are all gone":          {former: component, pending: true, dropped: true},
		"from ConfigMaps that exist but are invalid": {former: component, results: []extractor.Result{{Image: imagesjson.Image{Name: "aws"}}}, pending: true},
		"from an image now":                          {former: component, bundles: []extractor.Bundle{bundle}},
		"from an image before":                       {former: fromImage},
	} {
		t.Run(name, func(t *testing.T) {
			former := []v1alpha1.Component{test.former}
			if got := len(pendingBundles(former, test.bundles, []*configmap.OtherError{otherRelease})) > 0; got != test.pending {
				t.Errorf("pending is %t, want %t", got, test.pending)
			}
			if got := droppedBundles(former, test.bundles, test.results) != nil; got != test.dropped {
				t.Errorf("dropped is %t, want %t", got, test.dropped)
			}
		})
	}
}

func TestSelectOutcome(t *testing.T) {
	missing, pending := &operand.MissingError{Type: extractor.Core}, &configmap.OtherError{}
	invalid, rejected := fmt.Errorf("x: %w", extractor.ErrInvalid), &extractor.Error{Err: &extractor.UntrustedError{Err: errors.New("no signature")}}
	undecided := &extractor.Error{Err: &extractor.UntrustedError{Undecided: true, Err: errors.New("unavailable")}}
	for _, test := range []struct {
		err       error
		want      reason.Reason
		undecided bool
	}{
		{missing, reason.ComponentMissing, false},
		{&operand.DuplicateError{}, reason.ComponentMissing, false},
		{&operand.DroppedError{}, reason.ComponentMissing, false},
		{errors.Join(missing, pending), reason.TransportIncomplete, false},
		{&configmap.Error{Err: errors.New("gone")}, reason.TransportIncomplete, false},
		{errors.Join(missing, &PolicyError{}), reason.TransportUnguarded, false},
		{errors.Join(&operand.DuplicateError{}, &PolicyError{}), reason.ComponentMissing, false},
		{errors.Join(&PolicyError{}, invalid), reason.BundleInvalid, false},
		{errors.Join(missing, invalid), reason.BundleInvalid, false},
		{&extractor.Error{Err: errors.New("timeout")}, reason.ImageUnreadable, false},
		{rejected, reason.ImageUntrusted, false},
		{errors.Join(missing, rejected), reason.ImageUntrusted, false},
		{errors.Join(invalid, rejected), reason.ImageUntrusted, false},
		{undecided, reason.ImageUntrusted, true},
		{errors.Join(undecided, rejected), reason.ImageUntrusted, false},
		{errors.Join(missing, undecided), reason.ComponentMissing, false},
	} {
		if got := selectOutcome(test.err); got.Reason != test.want || got.Undecided != test.undecided {
			t.Errorf("%v: got %s, undecided %t, want %s", test.err, got.Reason, got.Undecided, test.want)
		}
	}
}

func TestImagesReason(t *testing.T) {
	for err, want := range map[error]reason.Reason{&StaleError{}: reason.ReleaseMismatch, errors.New("invalid"): reason.ImagesInvalid} {
		if diff := cmp.Diff(want, imagesReason(fmt.Errorf("reading: %w", err))); diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	}
}

func TestKnownPlatforms(t *testing.T) {
	annotated := func(configMap corev1.ConfigMap, value string) corev1.ConfigMap {
		configMap.Annotations[v1alpha1.ElsewhereAnnotation] = value
		return configMap
	}
	azure, gcp := digest.FromString("azure"), digest.FromString("gcp")
	text, err := encodePlatforms(operand.ImagePlatforms{azure: {"Azure"}})
	if err != nil {
		t.Fatal(err)
	}
	other := first("settings", "")
	other.Labels = nil
	got := knownPlatforms([]corev1.ConfigMap{
		annotated(first("4.22.0-1", ""), text), annotated(first("4.22.0-2", ""), "invalid"), first("4.22.0-3", ""),
		annotated(other, fmt.Sprintf(`{%q: ["GCP"]}`, gcp)),
	})
	if diff := cmp.Diff(operand.ImagePlatforms{azure: {"Azure"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text, err := encodePlatforms(nil); text != "" || err != nil {
		t.Errorf("no platforms: got %q, %v", text, err)
	}
}

// A version adopts the objects of the desired version as a whole only if all of them are the same.
func TestInherit_WholeVersion(t *testing.T) {
	set := func(name string) operand.Set {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		object.SetName(name)
		return operand.Set{Operands: []operand.Operand{{Name: "cluster-api", Type: extractor.Core, Objects: []*unstructured.Unstructured{object}}}}
	}
	stored, err := revision.Encode(set("a"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		edit func(*v1alpha1.ClusterAPI)
		set  operand.Set
		want string
	}{
		"the same objects":               {func(*v1alpha1.ClusterAPI) {}, set("a"), "4.22.0-1"},
		"the same objects a second time": {func(c *v1alpha1.ClusterAPI) { c.Status.Versions[0].InstalledAs = "4.21.0-7" }, set("a"), "4.21.0-7"},
		"other objects":                  {func(*v1alpha1.ClusterAPI) {}, set("b"), ""},
		"other unmanaged CRDs":           {func(c *v1alpha1.ClusterAPI) { c.Spec.UnmanagedCRDs = []string{"a.b.c"} }, set("a"), ""},
		"no version":                     {func(c *v1alpha1.ClusterAPI) { c.Status = v1alpha1.ClusterAPIStatus{} }, set("a"), ""},
		"ConfigMaps of another set":      {func(c *v1alpha1.ClusterAPI) { c.Status.Versions[0].ManifestsDigest = "sha256:other" }, set("a"), ""},
		"no ConfigMap": {func(c *v1alpha1.ClusterAPI) {
			c.Status.Versions[0].Name, c.Status.DesiredVersion = "4.22.0-2", "4.22.0-2"
		}, set("a"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterAPI()
			cluster.Status.DesiredVersion = "4.22.0-1"
			cluster.Status.Versions = []v1alpha1.Version{{Name: "4.22.0-1", Revision: 1, ManifestsDigest: v1alpha1.Digest(stored.Digest)}}
			existing := []corev1.ConfigMap{*revision.ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1", metav1.OwnerReference{}, stored)[0]}
			test.edit(cluster)
			set, got := inherit(cluster, test.set, inputs{}, existing)
			if got != test.want || got != "" && set.Operands[0].InstalledAs != got {
				t.Errorf("got %q with components %v, want %q", got, set.Components(), test.want)
			}
			if test.set.Operands[0].InstalledAs != "" {
				t.Error("the argument is changed")
			}
		})
	}
}

// TestChoose: missing input uninstalls no provider, except that a release may drop one from ConfigMaps.
func TestChoose(t *testing.T) {
	result := func(key string, kind extractor.ProviderType, name string) extractor.Result {
		reference := "quay.io/example/" + key + "@" + digest.FromString(key).String()
		return extractor.Result{Image: imagesjson.Image{Name: key, Reference: reference}, Bundles: []extractor.Bundle{{
			Origin: extractor.Origin{Name: key, Image: reference}, Metadata: extractor.Metadata{ProviderName: name, ProviderType: kind},
		}}}
	}
	core, aws := result("capi", extractor.Core, "cluster-api"), result("capa", extractor.Infrastructure, "aws")
	ipam := v1alpha1.Component{Name: "ipam", Type: "ipam", Source: "ipam", ConfigMaps: []string{"ipam-0"}}
	fromImage := v1alpha1.Component{Name: "aws", Type: "infrastructure", Source: "capa", Image: v1alpha1.ImageReference(aws.Image.Reference)}
	empty := aws
	empty.Bundles = nil
	other := &configmap.OtherError{Bundle: "ipam", Provider: "ipam", Type: extractor.IPAM}
	for name, test := range map[string]struct {
		desired string
		former  []v1alpha1.Component
		results []extractor.Result
		others  []*configmap.OtherError
		want    error // of this type
	}{
		"the first version":                                  {results: []extractor.Result{core, aws}},
		"its ConfigMaps are gone, in the same release":       {"4.22.0-2", []v1alpha1.Component{ipam}, []extractor.Result{core, aws}, nil, &configmap.Error{}},
		"its ConfigMaps are gone, in the next release":       {"4.21.9-2", []v1alpha1.Component{ipam}, []extractor.Result{core, aws}, nil, nil},
		"its ConfigMaps are still those of the last release": {"4.21.9-2", []v1alpha1.Component{ipam}, []extractor.Result{core, aws}, []*configmap.OtherError{other}, &configmap.OtherError{}},
		"leftovers of a provider that was not installed":     {"4.21.9-2", []v1alpha1.Component{fromImage}, []extractor.Result{core, aws}, []*configmap.OtherError{other}, nil},
		"its image has no bundle":                            {"4.21.9-2", []v1alpha1.Component{fromImage}, []extractor.Result{core, empty, result("other", extractor.Infrastructure, "other")}, nil, &operand.DroppedError{}},
		"a required type is missing":                         {results: []extractor.Result{core}, want: &operand.MissingError{}},
		"a required type is only in ConfigMaps of the last release": {results: []extractor.Result{core},
			others: []*configmap.OtherError{{Bundle: "aws", Provider: "aws", Type: extractor.Infrastructure}}, want: &configmap.OtherError{}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterAPI()
			if test.desired != "" {
				cluster.Status.DesiredVersion = test.desired
				cluster.Status.Versions = []v1alpha1.Version{{Name: test.desired, Revision: 2, Components: test.former}}
			}
			_, err := choose("4.22.0", operand.Platforms{"AWS"}, test.results, test.others, cluster)
			for kind, got := range map[string]bool{
				"*configmap.Error":      errors.As(err, new(*configmap.Error)),
				"*configmap.OtherError": errors.As(err, new(*configmap.OtherError)),
				"*operand.DroppedError": errors.As(err, new(*operand.DroppedError)),
			} {
				if want := kind == fmt.Sprintf("%T", test.want); got != want {
					t.Errorf("got %v; a %s: %t, want %t", err, kind, got, want)
				}
			}
			if (err == nil) != (test.want == nil) || errors.As(err, new(*operand.MissingError)) != (test.results[len(test.results)-1].Image.Name == "capi") {
				t.Errorf("got %v, want a %T", err, test.want)
			}
		})
	}
}

// A component whose value of a Secret has changed is not inherited, although its stored objects are the same.
func TestInherit_ValuesOfSecrets(t *testing.T) {
	values := func(salt, token string) setting.Secrets {
		return setting.Secrets{Salt: []byte(salt), Values: map[string]string{"<secret:a/b>": token}}
	}
	set := func(secrets setting.Secrets) operand.Set {
		out := operand.Set{SecretsDigest: secrets.Digest()}
		for _, name := range []string{"<secret:a/b>", "other"} {
			out.Operands = append(out.Operands, operand.Operand{Name: name, Type: extractor.Core, Objects: []*unstructured.Unstructured{
				{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"a": name}}},
			}})
		}
		return out
	}
	before := values("salt", "old")
	stored, err := revision.Encode(set(before))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		former, now setting.Secrets
		want        [2]string
	}{
		"the same value":                    {before, values("salt", "old"), [2]string{"4.22.0-1", "4.22.0-1"}},
		"another value":                     {before, values("salt", "new"), [2]string{"", "4.22.0-1"}},
		"the Secret of the version is lost": {setting.Secrets{}, values("new salt", "old"), [2]string{"", "4.22.0-1"}},
	} {
		cluster := clusterAPI()
		cluster.Status.DesiredVersion = "4.22.0-1"
		cluster.Status.Versions = []v1alpha1.Version{{Name: "4.22.0-1", Revision: 1, ManifestsDigest: v1alpha1.Digest(stored.Digest)}}
		existing := []corev1.ConfigMap{*revision.ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1", metav1.OwnerReference{}, stored)[0]}
		got, _ := inherit(cluster, set(test.now), inputs{Inputs: operand.Inputs{Settings: setting.Settings{Secrets: test.now}}, former: test.former}, existing)
		if have := [2]string{got.Operands[0].InstalledAs, got.Operands[1].InstalledAs}; have != test.want {
			t.Errorf("%s: installed as %q, want %q", name, have, test.want)
		}
		if text := object.TextAt(got.Operands[0].Objects[0].Object, "data", "a"); text != "<secret:a/b>" {
			t.Errorf("%s: the stored object has %q", name, text)
		}
	}
}

// The entry of a version whose ConfigMap is gone is dropped, except the entries of the current and the desired version, also if another version
// became the desired one since the ConfigMaps were read.
func TestDropEntries(t *testing.T) {
	cluster := clusterAPI()
	for i, name := range []string{"4.22.0-1", "4.22.0-2", "4.22.0-3"} {
		cluster.Status.Versions = append(cluster.Status.Versions, v1alpha1.Version{Name: name, Revision: int64(i + 1)})
	}
	cluster.Status.CurrentVersion, cluster.Status.DesiredVersion = "4.22.0-2", "4.22.0-3"
	dropEntries(nil)(&cluster.Status)
	if got := cluster.Status.Versions; len(got) != 2 || got[0].Name != "4.22.0-2" || got[1].Name != "4.22.0-3" {
		t.Errorf("entries are %v, want those of the current and of the desired version", got)
	}
}
