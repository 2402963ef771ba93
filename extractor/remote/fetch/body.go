// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"io"
	"mime"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// body is a manifest or a blob of a source. It resumes where the connection was interrupted, and ends
// with io.EOF only after its digest was verified.
type body struct {
	request  *request
	verifier *verifier
	ctx      context.Context //nolint:containedctx // io.Reader has no context
	err      error           // of all further calls of Read

	current           *response
	noRanges          bool  // the server does not support ranges
	interruptions     int   // consecutive ones, without minProgress between them
	sinceInterruption int64 // bytes since the last interruption
}

// openBody requests the resource, from its start.
func (r *request) openBody(ctx context.Context) (*body, error) {
	resp, err := r.sendAuthorized(ctx, 0)
	if err != nil {
		return nil, err
	}
	if r.resource.kind == blobs && r.resource.descriptor.Size < 0 && resp.ContentLength >= 0 && resp.ContentLength <= r.resource.limit {
		r.resource.descriptor.Size = resp.ContentLength // an interrupted body can be resumed, and has this size or fails
	}
	b := &body{request: r, ctx: ctx, verifier: newVerifier(r.resource.descriptor, r.resource.limit), current: resp}
	if r.resource.content != nil {
		b.verifier.manifest = &bytes.Buffer{}
	}
	if stated := r.resource.stated; stated != nil {
		mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		*stated = types.MediaType(mediaType)
	}
	return b, nil
}

func (b *body) close() {
	if b.current != nil {
		b.current.close()
	}
	b.current = nil
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for b.err == nil {
		if len(p) == 0 {
			return 0, nil
		}
		n, err := b.current.Body.Read(p)
		b.progress(n)
		b.err = b.verifier.add(p[:n])
		switch {
		case b.err != nil:
		case err == io.EOF:
			b.err = b.finish()
		case err != nil:
			b.err = b.resume(err)
		}
		if b.err != nil && b.err != io.EOF { //nolint:errorlint // the end of a stream is this very error
			return 0, b.err // its bytes are unverified
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, b.err
}

// Size returns the size of the body in bytes, -1 if unknown. It is untrusted until the body was read to its end.
func (b *body) Size() int64 { return b.verifier.want.Size }

// finish verifies the body at its end.
func (b *body) finish() error {
	err := b.verifier.end()
	if err == io.EOF { //nolint:errorlint // the end of a stream is this very error
		b.request.host.recordSuccess()
		if content := b.request.resource.content; content != nil {
			*content = b.verifier.manifest.Bytes()
		}
		return err
	}
	if b.verifier.truncated() {
		b.request.host.recordStall()
	}
	return b.current.describePage(err)
}
