// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The delay grows with each error, with any text, and starts again after progress.
func TestRetries_DelaysGrowUntilProgress(t *testing.T) {
	retries := newRetries()
	var got []time.Duration
	for i := range 9 {
		if i == 7 {
			retries.Forget(clusterAPIRequest)
		}
		got = append(got, retries.When(clusterAPIRequest)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{1, 2, 4, 8, 16, 30, 30, 1, 2}, got); diff != "" {
		t.Errorf("delays in seconds (-want +got):\n%s", diff)
	}
}
