// SPDX-License-Identifier: Apache-2.0

// Package managedcache caches objects of kinds that are known only at run time,
// and stops caching a kind when it has no users.
//
//	users ── Watch, Free ──> TrackingCache ──> one informer per kind ──> API server
//	readers ─ Get, List ───>      │
//	controller <── Source ────────┘
//
// A [TrackingCache] is a controller-runtime cache that tracks the users of each
// kind, and whose reads fail instead of blocking if the API server rejects a list
// or watch. An [ObjectBoundAccessManager] has one such cache and a client for
// each owner object, with the owner's credentials and filters. An
// [EnqueueWatchingObjects] enqueues the owners that watch the kind of an object.
package managedcache
