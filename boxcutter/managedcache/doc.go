// SPDX-License-Identifier: Apache-2.0

// Package managedcache caches the objects of kinds that are only known while
// the program runs, and forgets a kind when it has no user any more.
//
//	users ── Watch, Free ──> TrackingCache ──> one informer per kind ──> API server
//	readers ─ Get, List ───>      │
//	controller <── Source ────────┘
//
// A [TrackingCache] is a controller-runtime cache that knows its users and that
// never keeps a reader waiting for a kind that the API server refuses. An
// [ObjectBoundAccessManager] keeps one such cache and a client for every owner
// object, each with the owner's own credentials and filters. An
// [EnqueueWatchingObjects] turns an event of an object into requests for the
// owners that watch its kind.
package managedcache
