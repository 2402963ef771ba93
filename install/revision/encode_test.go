// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/object"
)

// kinds are kinds of every rank, and kinds without a rank.
var kinds = []string{
	"v1/Namespace", "v1/ServiceAccount", "v1/ConfigMap", "v1/Secret", "v1/Service", "v1/Pod",
	"rbac.authorization.k8s.io/v1/ClusterRole", "rbac.authorization.k8s.io/v1/RoleBinding",
	"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",
	"admissionregistration.k8s.io/v1/MutatingWebhookConfiguration", "apiextensions.k8s.io/v1/CustomResourceDefinition",
	"apps/v1/Deployment", "policy/v1/PodDisruptionBudget", "example.com/v1/Service",
}

// newObject returns an object of a kind, "group/version/Kind".
func newObject(kind, namespace, name string) *unstructured.Unstructured {
	at := strings.LastIndexByte(kind, '/')
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAPIVersion(kind[:at])
	obj.SetKind(kind[at+1:])
	obj.SetName(name)
	obj.SetNamespace(namespace)
	if namespace == "" {
		unstructured.RemoveNestedField(obj.Object, "metadata", "namespace")
	}
	return obj
}

// anyValue generates values that an object can contain.
func anyValue(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(),
		rapid.Float64Range(0.001, 0.999).AsAny(), rapid.Just[any](nil),
	}
	if depth > 0 {
		leaves = append(leaves,
			rapid.Map(rapid.SliceOfN(anyValue(depth-1), 0, 3), func(v []any) any { return v }),
			rapid.Map(rapid.MapOfN(rapid.String(), anyValue(depth-1), 0, 3), func(v map[string]any) any { return v }))
	}
	return rapid.OneOf(leaves...)
}

func anyObject() *rapid.Generator[*unstructured.Unstructured] {
	return rapid.Custom(func(t *rapid.T) *unstructured.Unstructured {
		obj := newObject(rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "namespace"), rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "name"))
		obj.Object["spec"] = anyValue(2).Draw(t, "spec")
		if spec, ok := obj.Object["spec"].(map[string]any); ok && object.IsCRD(obj) {
			spec["versions"] = rapid.SliceOfN(anyValue(3), 0, 3).Draw(t, "versions")
		}
		return obj
	})
}

func anyOperand() *rapid.Generator[operand.Operand] {
	return rapid.Custom(func(t *rapid.T) operand.Operand {
		return operand.Operand{
			Name:      rapid.StringMatching(`[a-zA-Z0-9.-]{1,80}`).Draw(t, "name"),
			Type:      rapid.SampledFrom([]extractor.ProviderType{extractor.Core, extractor.Infrastructure}).Draw(t, "type"),
			Version:   rapid.String().Draw(t, "version"),
			ContentID: digest.FromString(rapid.String().Draw(t, "content")),
			Origin: extractor.Origin{
				Name:       rapid.String().Draw(t, "source"),
				Image:      rapid.String().Draw(t, "image"),
				ConfigMaps: rapid.SliceOf(rapid.String()).Draw(t, "configMaps"),
			},
			Objects: rapid.SliceOfN(anyObject(), 0, 6).Draw(t, "objects"),
		}
	})
}

func anySet() *rapid.Generator[operand.Set] {
	return rapid.Custom(func(t *rapid.T) operand.Set {
		return operand.Set{
			ContentID: digest.FromString(rapid.String().Draw(t, "content")),
			Variables: rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "variables"),
			Operands:  rapid.SliceOfN(anyOperand(), 0, 4).Draw(t, "operands"),
		}
	})
}

func mustEncode(t testing.TB, set operand.Set) Stored {
	t.Helper()
	stored, err := Encode(set)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func TestStored_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := anySet().Draw(t, "set")
		stored, err := Encode(set)
		if err != nil {
			t.Fatal(err)
		}
		got, err := stored.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(set, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-stored +read):\n%s", diff)
		}
		if again, err := Encode(got); err != nil || again.Digest != stored.Digest {
			t.Fatalf("encoding the decoded set gives digest %s, want %s: %v", again.Digest, stored.Digest, err)
		}
	})
}

// example returns a set like a release's.
func example() operand.Set {
	return operand.Set{
		ContentID: digest.FromString("inputs"),
		Variables: map[string]string{"A": "<&>"},
		Operands: []operand.Operand{{
			Name: "cluster-api", Type: extractor.Core, Version: "v1.10.2", ContentID: digest.FromString("core"),
			Origin:  extractor.Origin{Name: "capi", Image: "quay.io/x@sha256:00"},
			Objects: []*unstructured.Unstructured{newObject("v1/Namespace", "", "a"), newObject("apps/v1/Deployment", "a", "b")},
		}},
	}
}

func decompress(t *testing.T, data []byte) []byte {
	t.Helper()
	decompressor, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decompressor.Close()
	plain, err := decompressor.DecodeAll(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// All later installers must be able to read the stored form.
func TestEncode_FormNeverChanges(t *testing.T) {
	want := `{"format":1,"contentID":"` + digest.FromString("inputs").String() + `","variables":{"A":"<&>"},` +
		`"components":[{"name":"cluster-api","type":"core","version":"v1.10.2","contentID":"` + digest.FromString("core").String() + `",` +
		`"source":"capi","image":"quay.io/x@sha256:00","objects":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}},` +
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b","namespace":"a"}}]}]}` + "\n"
	if got := string(decompress(t, mustEncode(t, example()).Data)); got != want {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
}

// compressed returns a stored form with the given JSON.
func compressed(t testing.TB, plain []byte) Stored {
	t.Helper()
	compressor, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	data := compressor.EncodeAll(plain, nil)
	return Stored{Digest: digest.FromBytes(data), Data: data}
}

func TestDecode_Errors(t *testing.T) {
	garbage := []byte("garbage")
	tests := map[string]struct {
		stored Stored
		want   string
	}{
		"changed bytes":                 {Stored{Digest: digest.FromString("other"), Data: mustEncode(t, example()).Data}, "the stored objects were modified: digest is sha256:"},
		"no bytes":                      {Stored{Digest: digest.FromBytes(nil)}, "decoding the stored objects"},
		"no digest":                     {Stored{Data: garbage}, "want "},
		"bytes that are not compressed": {Stored{Digest: digest.FromBytes(garbage), Data: garbage}, "decompressing the stored objects"},
		"more than fits into memory":    {compressed(t, make([]byte, maxDecoded+1)), "decompressing the stored objects"},
		"text that is not JSON":         {compressed(t, garbage), "decoding the stored objects"},
		"JSON with another structure":   {compressed(t, []byte(`{"components":"none"}`)), "decoding the stored objects"},
		"a later format":                {compressed(t, []byte(`{"format":3,"components":{"of":"another form"}}`)), "unsupported format 3 of the stored objects: this installer reads formats 1 and 2"},
		"an object without a kind":      {compressed(t, []byte(`{"format":1,"components":[{"name":"x","objects":[{},null]}]}`)), "stored object 1 of component x has no kind or no name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			set, err := test.stored.Decode()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
			if len(set.Operands) > 0 {
				t.Errorf("got a set in addition to an error: %v", set)
			}
		})
	}
}

func TestEncode_PlaceholdersHaveAFormatOfTheirOwn(t *testing.T) {
	set := example()
	set.SecretsDigest = digest.FromString("values")
	stored := mustEncode(t, set)
	if plain := decompress(t, stored.Data); !bytes.HasPrefix(plain, []byte(`{"format":2,`)) {
		t.Errorf("%.40s", plain)
	}
	if read, err := stored.Decode(); err != nil || read.SecretsDigest != set.SecretsDigest {
		t.Errorf("%v, %v", read.SecretsDigest, err)
	}
}

func TestEncode_TooLarge(t *testing.T) {
	set := example()
	set.Operands[0].Objects[0].Object["data"] = strings.Repeat("a", maxDecoded)
	if _, err := Encode(set); err == nil || !strings.Contains(err.Error(), "more than the limit of 67108864") {
		t.Errorf("error is %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(mustEncode(f, example()).Data, true)
	f.Add([]byte("garbage"), true)
	for _, plain := range []string{
		`{"format":1,"contentID":"sha256:0","components":[{"name":"a","objects":[{"apiVersion":"v1","kind":"List","metadata":{"name":"a"}}]}]}`,
		`{"format":1,"components":[{"objects":[{"apiVersion":1,"kind":[],"metadata":7}]}]}`,
		`{"format":1,"components":[null,{"objects":[null]}]}`, `[]`, `null`, `{"format":1}`,
	} {
		f.Add([]byte(plain), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, isCompressed bool) {
		stored := Stored{Digest: digest.FromBytes(data), Data: data}
		if !isCompressed {
			stored = compressed(t, data)
		}
		set, err := stored.Decode()
		if err != nil {
			return
		}
		if _, err := Phases("v-1", 1, set, []string{"a"}); err != nil {
			t.Errorf("no phases: %v", err)
		}
		again, err := Encode(set)
		if err != nil {
			t.Fatal(err)
		}
		read, err := again.Decode()
		if diff := cmp.Diff(set, read, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("(-first +second): %v\n%s", err, diff)
		}
	})
}

// large returns a set of many CRDs, some megabytes of JSON.
func large() operand.Set {
	set := operand.Set{ContentID: digest.FromString("large")}
	for i := range 5 {
		component := operand.Operand{Name: fmt.Sprintf("provider-%d", i), Type: extractor.Infrastructure, ContentID: digest.FromString("x")}
		for j := range 20 {
			crd := newObject("apiextensions.k8s.io/v1/CustomResourceDefinition", "", fmt.Sprintf("things%d.example%d.com", j, i))
			properties := map[string]any{}
			for k := range 300 {
				properties[fmt.Sprintf("field%d", k)] = map[string]any{"type": "string", "description": fmt.Sprintf("Field %d of thing %d says what the provider %d does.", k, j, i)}
			}
			crd.Object["spec"] = map[string]any{"properties": properties}
			component.Objects = append(component.Objects, crd)
		}
		component.Objects = append(component.Objects, newObject("apps/v1/Deployment", "ns", component.Name))
		set.Operands = append(set.Operands, component)
	}
	return set
}

func BenchmarkEncode(b *testing.B) {
	set := large()
	plain, err := json.Marshal(storedForm(set))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(plain)))
	b.ReportAllocs()
	for b.Loop() {
		stored := mustEncode(b, set)
		b.ReportMetric(float64(len(stored.Data)), "stored-bytes")
	}
}

func BenchmarkDecode(b *testing.B) {
	stored := mustEncode(b, large())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := stored.Decode(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPhases(b *testing.B) {
	set := large()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Phases("4.22.3-6", 6, set, []string{"things1.example1.com"}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEncode_Deterministic(t *testing.T) {
	set := large()
	first := mustEncode(t, set)
	for range 3 {
		if again := mustEncode(t, set); !bytes.Equal(first.Data, again.Data) {
			t.Fatal("the same set was encoded as other bytes")
		}
	}
}
