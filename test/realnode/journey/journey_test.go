// SPDX-License-Identifier: Apache-2.0

//go:build linux && realnode

package journey

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/realnode"
)

// runFolder is the folder of the run.
var runFolder string

func TestMain(m *testing.M) {
	realnode.RunTests(m, &runFolder, func(ctx context.Context, dir string) error { return Prepare(ctx, dir, os.Stderr) })
}

// TestJourney runs all steps; if the environment variable JOURNEY_SHORT is set, without the long ones. A step needs the result of the steps before it.
func TestJourney(t *testing.T) {
	began := time.Now()
	report := func(format string, arguments ...any) {
		fmt.Printf("    %4.0f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, arguments...))
	}
	j, err := Start(t.Context(), runFolder, report)
	if err != nil {
		t.Fatal(err)
	}
	report("the node is Ready")
	defer func() {
		if err := j.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, step := range j.Steps() {
		if os.Getenv("JOURNEY_SHORT") != "" && step.Long {
			continue
		}
		passed := t.Run(step.Name, func(t *testing.T) {
			fmt.Println(step.Title)
			if err := step.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		if !passed {
			t.Fatalf("the journey ended at step %s", step.Name)
		}
	}
}
