// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	_ "crypto/sha512" // for digests of layers
	"fmt"
	"hash"
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

// verifier compares arriving bytes with a descriptor. It hashes every byte of a blob once.
type verifier struct {
	want  v1.Descriptor // the size is -1 if unknown
	limit int64         // of the size, if it is unknown
	hash  hash.Hash
	read  int64
}

func newVerifier(want v1.Descriptor, limit int64) *verifier {
	v := &verifier{want: want, limit: limit}
	v.hash = v.newHash()
	return v
}

// algorithm returns the algorithm of the digest. It is SHA-256 without a digest, or if the algorithm is unknown: no bytes match
// such a digest.
func (v *verifier) algorithm() digest.Algorithm {
	if a := digest.Algorithm(v.want.Digest.Algorithm); a.Available() {
		return a
	}
	return digest.Canonical
}

func (v *verifier) newHash() hash.Hash { return v.algorithm().Hash() }

// add adds the next bytes.
func (v *verifier) add(p []byte) error {
	v.hash.Write(p)
	v.read += int64(len(p))
	switch {
	case v.want.Size < 0 && v.read > v.limit:
		return &SizeError{Limit: v.limit}
	case v.want.Size >= 0 && v.read > v.want.Size:
		return v.sizeError()
	}
	return nil
}

// end returns io.EOF if all bytes were verified.
func (v *verifier) end() error {
	if v.want.Size >= 0 && v.read < v.want.Size {
		return v.sizeError()
	}
	if got := v.sum().String(); got != v.want.Digest.String() {
		return &DigestError{Want: v.want.Digest.String(), Got: got, WantSize: v.want.Size, GotSize: v.read}
	}
	return io.EOF
}

func (v *verifier) sizeError() error {
	return &DigestError{Want: v.want.Digest.String(), WantSize: v.want.Size, GotSize: v.read}
}

// sum returns the digest of the bytes so far.
func (v *verifier) sum() v1.Hash {
	return v1.Hash{Algorithm: v.algorithm().String(), Hex: fmt.Sprintf("%x", v.hash.Sum(nil))}
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
	verified := &verifiedReader{body: body, verifier: newVerifier(d, limit)}
	readErr = read(verified)
	if readErr != nil && verified.err == nil {
		_, _ = io.Copy(io.Discard, verified) // its error is in verified
	}
	if verified.err != nil && verified.err != io.EOF { //nolint:errorlint // the end of a stream is this very error
		return nil, verified.err
	}
	return readErr, nil
}

type verifiedReader struct {
	*verifier
	body io.Reader
	err  error // of all further calls of Read
}

func (r *verifiedReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.body.Read(p)
	if r.err = r.add(p[:n]); r.err != nil {
		return 0, r.err
	}
	switch {
	case err == io.EOF:
		if r.err = r.end(); r.err != io.EOF { //nolint:errorlint // the end of a stream is this very error
			return 0, r.err
		}
	case err != nil:
		r.err = err
	}
	return n, r.err
}
