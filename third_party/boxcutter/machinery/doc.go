// SPDX-License-Identifier: Apache-2.0

// Package machinery contains the engines for objects, phases and revisions.
//
//	RevisionEngine ─ phase by phase ─> PhaseEngine ─ object by object ─> ObjectEngine ─> API server
//
// Each engine has a Reconcile and a Teardown that take one step and report the
// progress; the next call takes the next step. Expected situations, such as a
// collision with another owner, a rejected object or a failing probe, are part of the
// result. An error means that the step failed and should be retried.
//
// Objects are created with a plain create and updated with server-side apply. The
// Comparator decides locally whether an object needs a change, so that a converged
// revision causes no write.
package machinery
