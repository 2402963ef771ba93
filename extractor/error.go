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

// Problem is what kind of thing is wrong with an invalid bundle, for those who have a rule for each.
type Problem string

// The problems that are told apart. Any other has none: layers that cannot be unpacked, and what lies in the wrong place.
const (
	// FilesWrong means that one of the two files is missing, empty, or there under two names.
	FilesWrong Problem = "files"
	// FileTooLong means that a file is longer than Limit.
	FileTooLong Problem = "too long"
	// MetadataUnreadable means that the metadata is no single object, has a key twice, or a value of another type.
	MetadataUnreadable Problem = "unreadable"
	// KeyUnknown means that the metadata has a key that means nothing.
	KeyUnknown Problem = "unknown key"
	// KeyMissing means that the metadata lacks a key, or that its value is empty.
	KeyMissing Problem = "missing key"
	// ValueWrong means that the value of a key is none that it can have.
	ValueWrong Problem = "wrong value"
	// ManifestsChanged means that the manifests are not those of the content ID.
	ManifestsChanged Problem = "changed"
)

// InvalidError says that the bytes are the right ones and wrong: the image or
// its bundle must be built anew. Its text is the key and that of Err. Make one wherever
// verified bytes break a rule; leave it out where the bytes could not be had or
// could not be verified.
type InvalidError struct {
	Problem Problem
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

// asInvalid is an InvalidError of err, which may be one.
func asInvalid(err error, problem Problem) error {
	if errors.Is(err, ErrInvalid) {
		return err
	}
	return &InvalidError{Problem: problem, Err: err}
}
