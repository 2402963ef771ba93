// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/history"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/extractor"
	record "github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/install/operand"
)

// stored returns a version that was created on a day of January.
func stored(name string, day int, provider string) installed.Stored {
	component := operand.Operand{Name: "core", Type: extractor.Core, Version: provider}
	return installed.Stored{Name: name, Created: metav1.Date(2026, 1, day, 0, 0, 0, 0, time.UTC), Set: operand.Set{Operands: []operand.Operand{component}}}
}

func TestNew_ListsVersionsThatAreOnlyStored(t *testing.T) {
	report := history.New(
		rollout.Report{Versions: []rollout.Version{{Name: "4.22.1-2", Role: rollout.Installed}, {Name: "4.22.2-3", Role: rollout.Desired}}},
		[]installed.Stored{
			stored("4.22.0-1", 1, "v1.0.0"), stored("4.22.1-2", 2, "v1.1.0"), stored("4.22.2-3", 3, "v1.1.0"),
		}, nil)
	var out bytes.Buffer
	report.Table(&out)
	want := `VERSION   STARTED               DURATION  RESULT     CHANGES
4.22.2-3  2026-01-03T00:00:00Z  -         Desired    core v1.1.0
4.22.1-2  2026-01-02T00:00:00Z  -         Installed  core v1.1.0
4.22.0-1  2026-01-01T00:00:00Z  -         -          core v1.0.0
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
}

// TestNew_ListsVersionsThatAreOnlyRecorded: of the first two versions, the cluster stores nothing else.
func TestNew_ListsVersionsThatAreOnlyRecorded(t *testing.T) {
	at := func(day, minute int) metav1.Time { return metav1.Date(2026, 1, day, 0, minute, 0, 0, time.UTC) }
	with := func(version string) []v1alpha1.Component {
		return []v1alpha1.Component{{Name: "core", Version: version}}
	}
	report := history.New(rollout.Report{Versions: []rollout.Version{{Name: "4.22.2-3", Role: rollout.Installed}}},
		[]installed.Stored{stored("4.22.2-3", 3, "v1.2.0")},
		[]record.Entry{
			{Version: "4.22.0-1", Revision: 1, Started: at(1, 0), Ended: at(1, 3), Result: record.Installed, Components: with("v1.0.0")},
			{Version: "4.22.1-2", Revision: 2, Started: at(2, 0), Ended: at(2, 40), Result: record.Replaced, Reason: "Collision", Components: with("v1.1.0")},
			{Version: "4.22.2-3", Revision: 3, Started: at(3, 0), Ended: at(3, 2), Result: record.Installed, Components: with("v1.2.0")},
		})
	var out bytes.Buffer
	report.Table(&out)
	want := `VERSION   STARTED               DURATION  RESULT                CHANGES
4.22.2-3  2026-01-03T00:00:00Z  2m        Installed             core v1.1.0 -> v1.2.0
4.22.1-2  2026-01-02T00:00:00Z  40m       Replaced (Collision)  core v1.0.0 -> v1.1.0
4.22.0-1  2026-01-01T00:00:00Z  3m        Installed             core v1.0.0
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
}

func TestReport_TableWithoutVersions(t *testing.T) {
	var out bytes.Buffer
	if history.New(rollout.Report{}, nil, nil).Table(&out); out.String() != "The cluster stores no version.\n" {
		t.Errorf("got %q", &out)
	}
}
