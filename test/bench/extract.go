// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// extractCommand is the argument that makes this program run the extractor.
const extractCommand = "extract"

// report is the output of that process.
type report struct {
	Bundles int   `json:"bundles"`
	Read    int64 `json:"read"`
}

// atOnce is the number of images read concurrently.
const atOnce = 20

// extract reads the bundles of images as the program in the cluster does, and returns the exit code.
func extract(dir string, references []string) int {
	var read atomic.Int64
	puller := &fetch.Client{WrapTransport: func(next http.RoundTripper) http.RoundTripper { return &counter{next, &read} }}
	store := &cache.Store{Dir: dir}
	fetcher := &cache.Cached{Store: store, Next: remote.Limit(&remote.Registry{Client: puller, Layers: store}, atOnce)}
	var group sync.WaitGroup
	var found atomic.Int64
	var failed atomic.Bool
	for _, reference := range references {
		group.Go(func() {
			bundles, err := fetcher.Fetch(context.Background(), reference)
			if err != nil {
				failed.Store(true)
				fmt.Fprintln(os.Stderr, err)
			}
			found.Add(int64(len(bundles)))
		})
	}
	group.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(report{int(found.Load()), read.Load()}); err != nil || failed.Load() {
		return 1
	}
	return 0
}

// counter counts the bytes of bodies that are read.
type counter struct {
	next http.RoundTripper
	read *atomic.Int64
}

func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if err == nil {
		resp.Body = &countedBody{resp.Body, c.read}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	read *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	return n, err
}
