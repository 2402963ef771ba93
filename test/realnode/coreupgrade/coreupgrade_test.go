// SPDX-License-Identifier: Apache-2.0

//go:build linux && realnode

package coreupgrade

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/realnode"
	"github.com/capi-installer/capi-installer/test/realnode/journey"
)

// runFolder is the folder of the run.
var runFolder string

func TestMain(m *testing.M) {
	realnode.RunTests(m, &runFolder, func(ctx context.Context, dir string) error { return journey.PrepareCoreUpgrade(ctx, dir, os.Stderr) })
}

// TestCoreUpgrade_Availability prints a row of docs/maintainers/performance.md for each release. A release that cannot be installed, or replaced, fails it; failed
// requests do not, because webhooks exceed their time limits on a busy machine.
func TestCoreUpgrade_Availability(t *testing.T) {
	began := time.Now()
	report := func(format string, arguments ...any) {
		fmt.Printf("    %4.0f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, arguments...))
	}
	rows, err := journey.CoreUpgrade(t.Context(), runFolder, report)
	for _, row := range rows {
		fmt.Println(row)
	}
	if err != nil {
		t.Fatal(err)
	}
}
