// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/install/revision"
)

// Objects are deleted in the opposite order.
func TestReversed(t *testing.T) {
	phase := phaseOfTwo()
	if got := reversed(phase).Objects; got[0].GetName() != "b" || got[1].GetName() != "a" {
		t.Errorf("got %s before %s", got[0].GetName(), got[1].GetName())
	}
	if phase.Objects[0].GetName() != "a" {
		t.Error("the argument is changed")
	}
}

func phaseOfTwo() revision.Phase {
	return revision.Phase{Name: "core", Objects: []*unstructured.Unstructured{settings("a", ""), settings("b", "")}}
}
