// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"io"
	"slices"
	"strings"
)

// Freeze delays the events of watches until Thaw, like a stale watch cache. Reads and
// writes continue. It affects watches whose path contains one of the given strings, or
// all watches if there are none.
func (p *Proxy) Freeze(paths ...string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
	p.frozenPaths = paths
}

// Thaw ends Freeze and sends the delayed events.
func (p *Proxy) Thaw() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// Frozen reports whether the events of watches are delayed.
func (p *Proxy) Frozen() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.frozen != nil
}

// thawed returns a channel that is closed when the watch of a path is no longer frozen;
// nil if it is not frozen.
func (p *Proxy) thawed(path string) <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.frozen == nil || !containsAny(path, p.frozenPaths) {
		return nil
	}
	return p.frozen
}

// containsAny reports whether a path contains one of the strings, or there are
// none.
func containsAny(path string, texts []string) bool {
	return len(texts) == 0 || slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(path, text) })
}

// gatedBody is the body of a watch. Freeze holds it back.
type gatedBody struct {
	io.ReadCloser
	proxy *Proxy
	path  string
	ctx   context.Context
}

func (b *gatedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if gate := b.proxy.thawed(b.path); gate != nil {
		b.proxy.disturbed(b.path, "events held back")
		select {
		case <-gate:
		case <-b.ctx.Done():
			return 0, context.Cause(b.ctx)
		}
	}
	return n, err
}
