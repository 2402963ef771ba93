// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func fromSecret(name, key string) *v1alpha1.VariableSource {
	return &v1alpha1.VariableSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: name, Key: key}}
}

// A value is a text where the variable is, also if it looks like YAML.
func TestSecrets_RevealReplacesTextsOnly(t *testing.T) {
	t.Parallel()
	own := settingsOf(v1alpha1.ComponentSettings{Variables: []v1alpha1.Variable{{Name: "TOKEN", ValueFrom: fromSecret("aws", "token")}}})
	manifests := "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {plain: ${TOKEN}, inside: \"x ${TOKEN:=none} y\", other: z}\n"
	values, errs := own.Values(nil, []byte(manifests), false)
	if len(errs) > 0 || values["TOKEN"] != "<secret:aws/token>" {
		t.Fatalf("%v, %v", values, errs)
	}
	concealed := objectsOf(t, strings.NewReplacer("${TOKEN}", values["TOKEN"], "${TOKEN:=none}", values["TOKEN"]).Replace(manifests))
	secrets := Secrets{Salt: []byte("salt"), Values: map[string]string{"<secret:aws/token>": "12: {a\n"}}
	revealed := secrets.RevealAll(concealed)
	if got, want := at(t, revealed[0], "stringData"), "inside: |-\n  x 12: {a\n   y\nother: z\nplain: |\n  12: {a\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := at(t, concealed[0], "stringData", "plain"); !strings.Contains(got, "<secret:aws/token>") {
		t.Errorf("the argument was changed: %s", got)
	}
	if other := objectsOf(t, provider); secrets.Reveal(other[0]) != other[0] {
		t.Error("an object without a placeholder was copied")
	}
}

func TestSecrets_DigestDependsOnSaltAndValues(t *testing.T) {
	t.Parallel()
	digests := map[string]bool{}
	for _, s := range []Secrets{{}, {Salt: []byte("a")}, {Salt: []byte("a"), Values: map[string]string{"x": "1"}}, {Salt: []byte("b"), Values: map[string]string{"x": "1"}}, {Salt: []byte("a"), Values: map[string]string{"x": "2"}}} {
		decoded, err := DecodeSecrets(s.Encode())
		if s.Encode() != nil && (err != nil || decoded.Digest() != s.Digest()) {
			t.Errorf("%v: decoded %v, %v", s, decoded, err)
		}
		digests[string(s.Digest())] = true
	}
	if len(digests) != 4 { // both without values have none
		t.Errorf("%d digests: %v", len(digests), digests)
	}
}

func TestValues_ComputedValueCannotComeFromASecret(t *testing.T) {
	t.Parallel()
	own := settingsOf(v1alpha1.ComponentSettings{Variables: []v1alpha1.Variable{{Name: "TOKEN", ValueFrom: fromSecret("aws", "token")}}})
	_, errs := own.Values(nil, []byte("a: ${TOKEN^^}\n"), false)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "spec.components[1].variables[TOKEN]: Forbidden") {
		t.Errorf("got %v", errs)
	}
}
