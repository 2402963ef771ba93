// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func TestScopeOf(t *testing.T) {
	for name, test := range map[string]struct {
		version, current, desired string
		want                      scope
	}{
		"a version that is rolled out":         {"4.22.0-2", "4.22.0-1", "4.22.0-2", rollout},
		"the first version":                    {"4.22.0-1", "", "4.22.0-1", rollout},
		"the current version during a rollout": {"4.22.0-1", "4.22.0-1", "4.22.0-2", maintenance},
		"the settled version":                  {"4.22.0-1", "4.22.0-1", "4.22.0-1", maintenance},
		"a superseded version":                 {"4.22.0-2", "4.22.0-1", "4.22.0-3", controlledOnly},
	} {
		t.Run(name, func(t *testing.T) {
			got := scopeOf(test.version, v1alpha1.ClusterAPIStatus{CurrentVersion: test.current, DesiredVersion: test.desired})
			if got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
