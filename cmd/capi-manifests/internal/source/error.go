// SPDX-License-Identifier: Apache-2.0

package source

// InvalidError reports an invalid input; a retry does not help.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }

func (e *InvalidError) Unwrap() error { return e.Err }

// ArgumentError reports an invalid argument or flag, such as a SOURCE that is neither a path nor an image.
type ArgumentError struct{ Err error }

func (e *ArgumentError) Error() string { return e.Err.Error() }

func (e *ArgumentError) Unwrap() error { return e.Err }
