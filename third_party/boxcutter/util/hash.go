// SPDX-License-Identifier: Apache-2.0

// Package util computes hashes of objects, to detect new revisions, and one-line
// summaries of results.
package util

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"k8s.io/utils/dump"
)

// ComputeSHA256Hash returns the hash of a value, in hex. It follows pointers. If
// collisionCount is not nil, it is hashed too, as 8 bytes with four upper zero
// bytes, as Kubernetes does for pod templates.
func ComputeSHA256Hash(obj any, collisionCount *uint32) string {
	hasher := sha256.New()
	DeepHashObject(hasher, obj)
	if collisionCount != nil {
		var count [8]byte
		binary.LittleEndian.PutUint32(count[:], *collisionCount)
		hasher.Write(count[:])
	}
	return hex.EncodeToString(hasher.Sum(nil))
}

// DeepHashObject resets the hasher and writes a value to it. It follows pointers and
// sorts maps by key.
func DeepHashObject(hasher hash.Hash, objectToWrite any) {
	hasher.Reset()
	fmt.Fprint(hasher, dump.ForHash(objectToWrite))
}
