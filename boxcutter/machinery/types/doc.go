// SPDX-License-Identifier: Apache-2.0

// Package types is the vocabulary of the engines: phases and revisions, the
// options that shape how they are reconciled and torn down, and probes.
//
// Options cascade. An option for objects may be given to a phase, where it is
// the default of all its objects, and to a revision, where it is the default of
// all its phases. Options are applied in the order given, defaults before those
// for one phase or object, and of settings that hold one value the last wins.
package types
