// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/internal/object"
)

func TestWithoutEffect(t *testing.T) {
	read := settings("a", "red")
	read.SetResourceVersion("7")
	seen, reader := &reads{}, recordingReader{fake.NewClientBuilder().WithObjects(read).Build()}
	if err := reader.Get(seen.in(t.Context()), client.ObjectKeyFromObject(read), settings("a", "")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		found Object
		want  Action
	}{
		"a write that changed nothing":     {Object{Action: Updated, Version: "7"}, Idle},
		"a recovery that changed nothing":  {Object{Action: Recovered, Version: "7"}, Idle},
		"a write with effect":              {Object{Action: Updated, Version: "8"}, Updated},
		"a comparison of a paused object":  {Object{Action: Updated, Version: "7", Paused: true}, Updated},
		"a collision":                      {Object{Action: Collision, Version: "7"}, Collision},
		"another object, which is created": {Object{Reference: Reference{Identity: object.Identity{Name: "b"}}, Action: Created, Version: "7"}, Created},
	} {
		if test.found.Name == "" {
			test.found.Identity = object.IdentityOf(read)
		}
		if got := seen.compared([]Phase{{Objects: []Object{test.found}}})[0].Objects[0].Action; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
