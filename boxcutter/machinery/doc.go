// SPDX-License-Identifier: Apache-2.0

// Package machinery brings objects, phases and revisions to the cluster and
// takes them away again.
//
//	RevisionEngine ─ phase by phase ─> PhaseEngine ─ object by object ─> ObjectEngine ─> API server
//
// Each engine has a Reconcile and a Teardown that take one step and say how far
// things are; calling them again takes the next step. What may well happen in a
// cluster (an object of somebody else in the way, an object that is refused, a
// probe that is not satisfied yet) is part of the result. An error means that
// the step could not be taken and is to be tried again.
//
// An object is created with a plain create and from then on changed by
// server-side apply only. Whether it needs a change is found out by the
// Comparator without asking the API server, so that a revision that has
// converged costs no write at all, not even a dry run.
package machinery
