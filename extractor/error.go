// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"errors"
	"strings"
)

// Error is a failure to read an image or a file. Fields that do not apply are empty.
type Error struct {
	// Image is the payload reference, by digest.
	Image string
	// Layer is the digest of the layer.
	Layer string
	// Host is the registry, such as "mirror.example.com:5000".
	Host string
	// File is the path in the image, such as "capi-manifests/metadata.json".
	File string
	Err  error
}

// Error returns the fields that are set, from the image to the file, and the cause.
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

// ErrInvalid matches every *InvalidError:
//
//	errors.Is(err, extractor.ErrInvalid) // the bundle is invalid; a retry does not help
//
// Every other error is a failure to read the bytes, and is retryable.
var ErrInvalid = errors.New("invalid bundle")

// ErrUntrusted matches every *UntrustedError of an image that a signature policy rejects, but not of one
// for which the policy could not be evaluated.
var ErrUntrusted = errors.New("image rejected by the signature policy")

// UntrustedError reports an image that may not be used, because no signature policy accepts it.
type UntrustedError struct {
	// Undecided reports whether the policy could not be evaluated: the policy or the signatures cannot be read.
	// Then a retry can help. Otherwise the policy rejects the image.
	Undecided bool
	Err       error
}

func (e *UntrustedError) Error() string {
	if e.Undecided {
		return "checking the signatures failed: " + e.Err.Error()
	}
	return "rejected by the signature policy: " + e.Err.Error()
}

func (e *UntrustedError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrUntrusted) true if the policy rejects the image.
func (e *UntrustedError) Is(target error) bool { return target == ErrUntrusted && !e.Undecided }

// Defect is the kind of an InvalidError, for callers that have a rule for each kind.
type Defect string

// The kinds of defects. Invalid layers and misplaced files have none of them.
const (
	// FilesWrong means that one of the two files is missing, empty, or exists under two names.
	FilesWrong Defect = "files"
	// FileTooLong means that a file is longer than Limit.
	FileTooLong Defect = "too long"
	// MetadataUnreadable means that the metadata is not a single object, has a duplicate key, or a value of another type.
	MetadataUnreadable Defect = "unreadable"
	// KeyUnknown means that the metadata has an unknown key.
	KeyUnknown Defect = "unknown key"
	// KeyMissing means that the metadata lacks a key, or that its value is empty.
	KeyMissing Defect = "missing key"
	// ValueWrong means that the value of a key is invalid.
	ValueWrong Defect = "wrong value"
	// ManifestsChanged means that the manifests do not match the content ID.
	ManifestsChanged Defect = "changed"
)

// InvalidError reports verified bytes that break a rule: the image or
// its bundle must be rebuilt. Its text is the key and that of Err. Failures to read or to
// verify the bytes are other errors.
type InvalidError struct {
	Defect Defect
	// Key of the metadata that Err is about, such as "attributes.type"; may be empty.
	Key string
	// Line of the file, from 1; 0 if it is not known.
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

// asInvalid returns err as an InvalidError.
func asInvalid(err error, defect Defect) error {
	if errors.Is(err, ErrInvalid) {
		return err
	}
	return &InvalidError{Defect: defect, Err: err}
}
