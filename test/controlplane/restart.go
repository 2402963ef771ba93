// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
)

// RestartAPIServer kills the API server, calls meanwhile, and returns when another one serves on the same port.
func (c *Cluster) RestartAPIServer(ctx context.Context, meanwhile func(context.Context) error) error {
	if err := c.supervisor.kill("kube-apiserver"); err != nil {
		return err
	}
	if err := errors.Join(meanwhile(ctx), c.supervisor.start("kube-apiserver", c.apiServerFlags(c.port)...)); err != nil {
		return err
	}
	return c.await(ctx, "kube-apiserver", c.serving)
}

// CompactStore removes all old states of objects from etcd. A watch that resumes from one of them fails after the next restart of the API
// server: until then, the API server has the latest ones in memory.
func (c *Cluster) CompactStore(ctx context.Context) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(c.Dir, strings.TrimPrefix(storeURL, "unix://")))
	}
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	post := func(path, body string) (answer struct{ Header struct{ Revision string } }, err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd/v3/kv/"+path, strings.NewReader(body))
		if err != nil {
			return answer, err
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return answer, fmt.Errorf("asking etcd: %w", err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return answer, fmt.Errorf("asking etcd for %s: %s", path, response.Status)
		}
		return answer, json.NewDecoder(response.Body).Decode(&answer)
	}
	state, err := post("range", `{"key": "AA=="}`)
	if err == nil {
		_, err = post("compaction", fmt.Sprintf(`{"revision": %q, "physical": true}`, state.Header.Revision))
	}
	return err
}
