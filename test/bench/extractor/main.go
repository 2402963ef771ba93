// SPDX-License-Identifier: Apache-2.0

// Extractor reads the bundles of images as the program in the cluster does, for the benchmarks of package bench. It is a
// program of its own: its memory is the extractor's.
//
//	extractor CACHE REFERENCE...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

func main() { os.Exit(extract(os.Args[1], os.Args[2:])) }

// report is the output.
type report struct {
	Bundles int   `json:"bundles"`
	Read    int64 `json:"read"`
}

// atOnce is the number of images read concurrently.
const atOnce = 20

// extract reads the bundles with a cache in dir, and returns the exit code.
func extract(dir string, references []string) int {
	ctx, meter := context.Background(), &fetch.Meter{}
	store := &cache.Store{Dir: dir}
	fetcher := &cache.Cached{Store: store, Next: remote.Limit(&remote.Registry{}, atOnce)}
	var group sync.WaitGroup
	var found atomic.Int64
	var failed atomic.Bool
	for _, reference := range references {
		group.Go(func() {
			bundles, err := fetcher.Fetch(fetch.WithMeter(ctx, meter), reference)
			if err != nil {
				failed.Store(true)
				fmt.Fprintln(os.Stderr, err)
			}
			found.Add(int64(len(bundles)))
		})
	}
	group.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(report{int(found.Load()), meter.Received.Load()}); err != nil || failed.Load() {
		return 1
	}
	return 0
}
