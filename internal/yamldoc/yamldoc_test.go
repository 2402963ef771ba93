// SPDX-License-Identifier: Apache-2.0

package yamldoc_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string][]yamldoc.Document{
		"":                  {{Start: 1}},
		"# only a comment":  {{Start: 1, Text: []byte("# only a comment")}},
		"a: 1":              {{Number: 1, Line: 1, Start: 1, Text: []byte("a: 1")}},
		"\ufeff---\na: 1":   {{Number: 1, Line: 2, Start: 1, Text: []byte("\ufeff---\na: 1")}},
		"---\na: 1\n":       {{Number: 1, Line: 2, Start: 1, Text: []byte("---\na: 1\n")}},
		"--- {a: 1}\n":      {{Number: 1, Line: 1, Start: 1, Text: []byte("--- {a: 1}\n")}},
		"a: 1\n---\n\nb: 2": {{Number: 1, Line: 1, Start: 1, Text: []byte("a: 1\n")}, {Number: 2, Line: 4, Start: 2, Text: []byte("---\n\nb: 2")}},
		"#\n---\r\nb: 2\n...\n": {
			{Start: 1, Text: []byte("#\n")}, {Number: 1, Line: 3, Start: 2, Text: []byte("---\r\nb: 2\n")}, {Start: 4, Text: []byte("...\n")},
		},
		"a: |\n  ---\n----\n": {{Number: 1, Line: 1, Start: 1, Text: []byte("a: |\n  ---\n----\n")}},
	} {
		if diff := cmp.Diff(want, yamldoc.Split([]byte(stream)), cmp.Transformer("text", func(b []byte) string { return string(b) })); diff != "" {
			t.Errorf("%q: documents (-want +got):\n%s", stream, diff)
		}
	}
}

func TestDocument_LineAt(t *testing.T) {
	t.Parallel()
	document := yamldoc.SplitNonEmpty([]byte("#\n---\na: 1\nb: 2\n"))[0]
	if line := document.LineAt(bytes.IndexByte(document.Text, 'b')); line != 4 {
		t.Errorf("b is on line %d, want 4", line)
	}
}

func TestObjects_Lists(t *testing.T) {
	t.Parallel()
	objects, err := yamldoc.Objects([]byte(`
kind: List
apiVersion: v1
items:
- {kind: A}
- {kind: BList, items: [{kind: B}, {kind: C}]}
---
{kind: List, apiVersion: v1}
---
{kind: WaitList, spec: {}}
---
{kind: Recipe, items: [{kind: NoObject}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range objects {
		kinds = append(kinds, o.GetKind())
	}
	if diff := cmp.Diff([]string{"A", "B", "C", "WaitList", "Recipe"}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestObjects_Errors(t *testing.T) {
	t.Parallel()
	_, err := yamldoc.Objects([]byte("a: 1\n---\nkind: {\n---\n# empty\n---\n- x\n---\na: 1\na: 2\n---\n{kind: List, apiVersion: v1, items: [1]}\n"))
	want := `line 3 (document 2): yaml: line 3: did not find expected node content
line 7 (document 3): not a Kubernetes object: it has no fields
line 9 (document 4): yaml: unmarshal errors:
  line 10: key "a" already set in map
line 12 (document 5): items[0]: not a Kubernetes object: it has no fields`
	if err == nil || err.Error() != want {
		t.Errorf("error is:\n%v\nwant:\n%s", err, want)
	}
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "---\n", "a: 1\n---\nb: 2\n...\n", "kind: List\nitems: [1, {kind: A}]\n", "\r\n--- # x\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		var joined []byte
		for _, document := range yamldoc.Split(stream) {
			if document.IsEmpty() != (document.Line == 0) || document.Line > 0 && document.Line < document.Start {
				t.Errorf("number %d, line %d, start %d", document.Number, document.Line, document.Start)
			}
			joined = append(joined, document.Text...)
		}
		if !bytes.Equal(joined, stream) {
			t.Errorf("the documents are %q, want %q", joined, stream)
		}
		_, _ = yamldoc.Objects(stream)
	})
}
