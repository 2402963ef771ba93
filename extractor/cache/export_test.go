// SPDX-License-Identifier: Apache-2.0

package cache

// OnStep has step called before each operation of a store that changes
// something. Its error takes the place of the operation.
func OnStep(s *Store, step func(operation string) error) { s.files.step = step }

// Decode reads the bundles of an entry.
var Decode = decode

// DigestIn returns the digest of a reference.
var DigestIn = digestIn
