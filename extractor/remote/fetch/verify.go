// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	_ "crypto/sha512" // for digests of layers
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
)

// DigestError reports that the bytes of a registry, a mirror or a file do not match the digest.
type DigestError struct {
	// Want is the expected digest. Got is the digest of the bytes; empty if their size is wrong, and a text if the bytes
	// have none.
	Want, Got string
	// WantSize is in bytes, -1 if unknown. GotSize is the number of received bytes, or of the first excess byte.
	WantSize, GotSize int64
}

// Error implements error.
func (e *DigestError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("size mismatch: received %d bytes or more, want the %d bytes of %s", e.GotSize, e.WantSize, e.Want)
	}
	return fmt.Sprintf("digest mismatch: received %s, want %s", e.Got, e.Want)
}

// SizeError reports a manifest, or a blob of unknown size, that is larger than the limit.
type SizeError struct {
	// Limit is in bytes.
	Limit int64
}

// Error implements error.
func (e *SizeError) Error() string {
	return fmt.Sprintf("size limit exceeded: received more than %d bytes", e.Limit)
}

// ReadVerified reads the blob d from body, as Image.Blob does from a registry: the body that read gets ends with io.EOF
// only after its size and digest were verified. The size in d is -1 if unknown; then it is at most limit. If read returns
// an error, the rest of body is verified: the error counts only for verified bytes.
func ReadVerified(body io.Reader, d v1.Descriptor, limit int64, read func(io.Reader) error) error {
	readErr, err := readVerified(body, d, limit, read)
	if err != nil {
		return err
	}
	return readErr
}

// readVerified returns the error of read and the error of body.
func readVerified(body io.Reader, d v1.Descriptor, limit int64, read func(io.Reader) error) (readErr, bodyErr error) {
	verified := &verifiedReader{body: body, want: d, limit: limit, digester: digest.Canonical.Digester()}
	if a := digest.Algorithm(d.Digest.Algorithm); a.Available() { // no bytes match a digest of another algorithm
		verified.digester = a.Digester()
	}
	readErr = read(verified)
	if readErr != nil && verified.err == nil {
		_, _ = io.Copy(io.Discard, verified) // its error is in verified
	}
	if verified.err != nil && verified.err != io.EOF { //nolint:errorlint // the end of a stream is this very error
		return nil, verified.err
	}
	return readErr, nil
}

// verifiedReader compares arriving bytes with a descriptor. It hashes every byte of a blob once.
type verifiedReader struct {
	body     io.Reader
	want     v1.Descriptor // the size is -1 if unknown
	limit    int64         // of the size, if it is unknown
	digester digest.Digester
	read     int64
	err      error // of all further calls of Read
}

func (r *verifiedReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.body.Read(p)
	r.digester.Hash().Write(p[:n])
	r.read += int64(n)
	wrong := &DigestError{Want: r.want.Digest.String(), WantSize: r.want.Size, GotSize: r.read}
	switch {
	case r.want.Size < 0 && r.read > r.limit:
		r.err = &SizeError{Limit: r.limit}
	case r.want.Size >= 0 && (r.read > r.want.Size || err == io.EOF && r.read < r.want.Size):
		r.err = wrong
	case err == io.EOF && r.digester.Digest().String() != wrong.Want:
		wrong.Got = r.digester.Digest().String()
		r.err = wrong
	default:
		r.err = err
		return n, err
	}
	return 0, r.err
}
