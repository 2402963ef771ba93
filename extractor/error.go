// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"errors"
	"strings"
)

// Error reports that reading an image or a file failed. Fields that do not apply are
// empty.
type Error struct {
	// Image is the payload reference, by digest.
	Image string
	// Layer is the digest of the layer.
	Layer string
	// File is the path in the image, such as "capi-manifests/metadata.json".
	File string
	Err  error
}

// Error returns the fields that are set, and the cause.
func (e *Error) Error() string {
	var where []string
	for _, part := range []struct{ what, name string }{
		{"image", e.Image}, {"layer", e.Layer}, {"file", e.File},
	} {
		if part.name != "" {
			where = append(where, part.what+" "+part.name)
		}
	}
	cause := "unknown error"
	if e.Err != nil {
		cause = e.Err.Error()
	}
	if len(where) == 0 {
		return cause
	}
	return strings.Join(where, ", ") + ": " + cause
}

func (e *Error) Unwrap() error { return e.Err }

// ErrInvalid matches every *InvalidError:
//
//	errors.Is(err, extractor.ErrInvalid) // the bundle is invalid: do not retry
//
// Every other error means that reading the bytes failed, and is retryable.
var ErrInvalid = errors.New("invalid bundle")

// ErrUntrusted matches an *UntrustedError if the signature policy rejects the image, but not if the
// policy could not be evaluated.
var ErrUntrusted = errors.New("image rejected by the signature policy")

// UntrustedError reports an image that must not be used, because the signature policy does not
// accept it.
type UntrustedError struct {
	// Undecided is true if the policy could not be evaluated, because reading the policy or the signatures
	// failed; the error is then retryable. Otherwise the policy rejects the image.
	Undecided bool
	Err       error
}

func (e *UntrustedError) Error() string {
	if e.Undecided {
		return "the signature policy could not be evaluated: " + e.Err.Error()
	}
	return "rejected by the signature policy: " + e.Err.Error()
}

func (e *UntrustedError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrUntrusted) true if the policy rejects the image.
func (e *UntrustedError) Is(target error) bool { return target == ErrUntrusted && !e.Undecided }

// InvalidError reports verified content that is invalid, so that the image or its bundle
// must be rebuilt. It is not used if reading or verifying the content failed.
type InvalidError struct {
	// Key is the invalid key of the metadata, such as "attributes.type"; may be
	// empty.
	Key string
	// Line of the file, from 1; 0 if unknown.
	Line int
	Err  error
}

func (e *InvalidError) Error() string {
	if e.Key == "" {
		return e.Err.Error()
	}
	return e.Key + ": " + e.Err.Error()
}

func (e *InvalidError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// AsInvalid marks an error as an ErrInvalid; nil stays nil.
func AsInvalid(err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return &InvalidError{Err: err}
}
