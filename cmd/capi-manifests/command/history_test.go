// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/history"
)

func TestHistory_ListsTheChangesOfEachVersion(t *testing.T) {
	at := func(day, minute int) metav1.Time { return metav1.Date(2026, 1, day, 0, minute, 0, 0, time.UTC) }
	with := func(version string) []v1alpha1.Component {
		return []v1alpha1.Component{{Name: "core", Version: version}}
	}
	report := newHistoryReport([]history.Entry{
		{Version: "4.22.0-1", Revision: 1, Started: at(1, 0), Ended: at(1, 3), Result: history.Installed, Components: with("v1.0.0")},
		{Version: "4.22.1-2", Revision: 2, Started: at(2, 0), Ended: at(2, 40), Result: history.Replaced, Reason: "Collision", Components: with("v1.1.0")},
		{Version: "4.22.2-3", Revision: 3, Started: at(3, 0), Result: history.Installing, Components: with("v1.2.0")},
	})
	var out bytes.Buffer
	report.table(&out)
	want := `VERSION   STARTED               DURATION  RESULT                CHANGES
4.22.2-3  2026-01-03T00:00:00Z  -         Installing            core v1.1.0 -> v1.2.0
4.22.1-2  2026-01-02T00:00:00Z  40m       Replaced (Collision)  core v1.0.0 -> v1.1.0
4.22.0-1  2026-01-01T00:00:00Z  3m        Installed             core v1.0.0
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
}
