// SPDX-License-Identifier: Apache-2.0

// Package types defines the vocabulary of the engines: phases, revisions, probes,
// owner strategies and the options for reconcile and teardown.
//
// Options cascade. An object option of a phase is the default of all its objects; a
// phase option of a revision is the default of all its phases. Defaults apply
// before the options of one phase or object, and the last value of a setting takes
// precedence.
package types
