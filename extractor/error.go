// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"errors"
	"strings"
)

// Error says what could not be read. Fields that do not apply are empty.
type Error struct {
	// Image is the payload reference, by digest.
	Image string
	// Layer is the digest of the layer.
	Layer string
	// Host is the registry that was asked, such as "mirror.example.com:5000".
	Host string
	// File is the path in the image, such as "capi-manifests/metadata.json".
	File string
	Err  error
}

// Error names everything that is set, from the image inwards, and then the cause.
func (e *Error) Error() string {
	var where []string
	for _, part := range []struct{ what, name string }{
		{"image", e.Image}, {"registry", e.Host}, {"layer", e.Layer}, {"file", e.File},
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

// ErrInvalid is what every *InvalidError is, for errors.Is:
//
//	errors.Is(err, extractor.ErrInvalid) // the bundle is wrong; asking again does not help
//
// Every other error is about getting the bytes, and may be gone the next time.
var ErrInvalid = errors.New("invalid bundle")

// InvalidError says that the bytes are the right ones and wrong: the image or
// its bundle must be built anew. Its text is that of Err. Make one wherever
// verified bytes break a rule; leave it out where the bytes could not be had or
// could not be verified.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }

func (e *InvalidError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }
