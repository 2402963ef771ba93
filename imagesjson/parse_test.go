// SPDX-License-Identifier: Apache-2.0

package imagesjson_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// Each archive has an images.json and the results of Parse: want without tags, want-with-tags with
// Parser.AllowTags.
func TestParse(t *testing.T) {
	scenario.Run(t, "testdata/parse/*.txtar", scenario.Only("images.json"), func(t *testing.T, archive *scenario.Archive) []scenario.File {
		data := string(archive.Files[0].Data)
		return []scenario.File{
			{Name: "want", Data: []byte(describe(t, imagesjson.Parser{}, data))},
			{Name: "want-with-tags", Data: []byte(describe(t, imagesjson.Parser{AllowTags: true}, data))},
		}
	})
}

func describe(t *testing.T, parser imagesjson.Parser, data string) string {
	t.Helper()
	images, err := parser.Parse([]byte(data))
	if err != nil {
		if images != nil {
			t.Errorf("both images and the error %v", err)
		}
		checkTypes(t, err)
		return "error\n" + err.Error() + "\n"
	}
	var out strings.Builder
	for _, image := range images {
		fmt.Fprintln(&out, image.Name, image.Reference)
	}
	return out.String()
}

// checkTypes fails unless err is a *SyntaxError or joins *EntryErrors.
func checkTypes(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*imagesjson.SyntaxError](err); ok {
		return
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Errorf("error is a %T, want joined errors", err)
		return
	}
	for _, err := range joined.Unwrap() {
		if _, ok := err.(*imagesjson.EntryError); !ok {
			t.Errorf("error is a %T, want *EntryError", err)
		}
	}
}

// References that Parse accepts must be valid in the status of the ClusterAPI object.
func TestParse_AcceptsTheReferencesOfTheAPI(t *testing.T) {
	api, err := os.ReadFile("../api/v1alpha1/clusterapi.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("imagesjson.go")
	if err != nil {
		t.Fatal(err)
	}
	inAPI := regexp.MustCompile(`self\.matches\('(.*@sha256.*)'\)`).FindSubmatch(api)
	here := regexp.MustCompile("byDigest = regexp.MustCompile\\(`(.*)`\\)").FindSubmatch(source)
	if inAPI == nil || here == nil || string(inAPI[1]) != string(here[1]) {
		t.Errorf("the API accepts references like\n%q\nand the parser\n%q", inAPI, here)
	}
}

func FuzzParse(f *testing.F) {
	for _, archive := range scenario.Archives(f, "testdata/parse/*.txtar") {
		f.Add(archive.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		images, err := imagesjson.Parse(data)
		if err != nil {
			checkTypes(t, err)
			return
		}
		byName := func(a, b imagesjson.Image) int { return strings.Compare(a.Name, b.Name) }
		if !slices.IsSortedFunc(images, byName) {
			t.Errorf("not sorted: %v", images)
		}
		for _, image := range images {
			if image.Name == "" || !strings.Contains(image.Reference, "@sha256:") {
				t.Errorf("%+v has no name or no digest", image)
			}
		}
		again, err := imagesjson.Parse(images.Encode())
		if err != nil {
			t.Fatalf("parsing the encoded images: %v", err)
		}
		if diff := cmp.Diff(images, again); diff != "" {
			t.Errorf("encoded and parsed (-want +got)\n%s", diff)
		}
	})
}
