// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func TestNumber(t *testing.T) {
	numbers := map[string]int64{
		"4.22.3-6":                      6,
		"4.22.0-0.nightly-2026-01-31-7": 7,
		"a-9223372036854775807":         math.MaxInt64,
	}
	for name, want := range numbers {
		if got, err := Number(name); got != want || err != nil {
			t.Errorf("%s: number is %d (%v), want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "6", "-6", "4.22.3", "4.22.3-", "4.22.3-0", "4.22.3-06", "4.22.3-+6", "4.22.3--", "4.22.3-6.1", "4.22.3-x", "a-9223372036854775808"} {
		var typed *Error
		if got, err := Number(name); !errors.As(err, &typed) || typed.Version != name {
			t.Errorf("%q: number is %d (%v), want an error that names it", name, got, err)
		}
	}
}

func TestNext_HigherThanHistory(t *testing.T) {
	history := []v1alpha1.Version{{Name: "4.22.2-5", Revision: 5}, {Name: "4.22.3-9", Revision: 9}, {Name: "4.22.3-7", Revision: 7}}
	name, number, err := Next(history, "4.22.2")
	if name != "4.22.2-10" || number != 10 || err != nil {
		t.Errorf("got %s, %d (%v), want 4.22.2-10", name, number, err)
	}
	name, number, err = Next(nil, "4.22.2")
	if name != "4.22.2-1" || number != 1 || err != nil {
		t.Errorf("got %s, %d (%v), want 4.22.2-1", name, number, err)
	}
}

func TestNext_InvalidNames(t *testing.T) {
	tests := map[string]struct {
		release string
		last    int64
		want    string
	}{
		"no release version":          {"", 1, `invalid release version "": cannot be part of the name of a ConfigMap`},
		"upper case":                  {"4.22.3-RC", 1, "lower case"},
		"build metadata":              {"4.22.3+build", 1, "use a version such as 4.22.3"},
		"too long for a label":        {"4.22.3-" + strings.Repeat("a", 60), 1, "must be no more than 63 characters, and has 69"},
		"too long with another digit": {strings.Repeat("a", 61), 9, "must be no more than 63 characters, and has 64"},
		"no number after the last":    {"4.22.3", math.MaxInt64, "is the maximum"},
		"the name of another version": {"-4", 1, "cannot be part of the name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := Next([]v1alpha1.Version{{Revision: test.last}}, test.release)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
	if name, _, err := Next([]v1alpha1.Version{{Revision: 8}}, strings.Repeat("a", 61)); len(name) != 63 || err != nil {
		t.Errorf("a name of 63 characters is rejected: %v", err)
	}
}

func TestSame(t *testing.T) {
	content := digest.FromString("a")
	version := v1alpha1.Version{ContentID: v1alpha1.Digest(content), UnmanagedCRDs: []string{"a", "b"}}
	tests := map[string]struct {
		content   digest.Digest
		unmanaged []string
		want      bool
	}{
		"unchanged":               {content, []string{"a", "b"}, true},
		"listed in another order": {content, []string{"b", "a"}, true},
		"another content":         {digest.FromString("b"), []string{"a", "b"}, false},
		"one more unmanaged CRD":  {content, []string{"a", "b", "c"}, false},
		"one unmanaged CRD less":  {content, []string{"a"}, false},
		"no unmanaged CRD":        {content, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Same(version, test.content, test.unmanaged); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
